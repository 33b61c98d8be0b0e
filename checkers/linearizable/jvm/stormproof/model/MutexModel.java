package stormproof.model;

/** A lock that does not know its owner: ACQUIRE when it is free, RELEASE when it is held, by whomever. */
final class MutexModel implements Model {
    @Override
    public String name() {
        return "mutex";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        int initial = init.length > 0 && init[0] != 0 ? 1 : 0;
        int[] function = operations.function;
        return new States() {
            @Override
            public int initial() {
                return initial;
            }

            @Override
            public int step(int state, int kind) {
                return switch (function[kind]) {
                    case Function.ACQUIRE -> state == 0 ? 1 : ILLEGAL;
                    case Function.RELEASE -> state == 1 ? 0 : ILLEGAL;
                    default -> throw Models.noSuch(function[kind], "a mutex");
                };
            }

            @Override
            public String describe(int state) {
                return state == 0 ? "free" : "held";
            }

            @Override
            public long bytes() {
                return 0;
            }
        };
    }
}
