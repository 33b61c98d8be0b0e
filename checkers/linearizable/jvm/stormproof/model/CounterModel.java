package stormproof.model;

import stormproof.util.LongInterner;

/** A number: ADD [amount, may be negative], READ [value]. */
final class CounterModel implements Model {
    @Override
    public String name() {
        return "counter";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        LongInterner places = new LongInterner();
        places.place(init.length == 0 ? 0 : init[0]);
        int[] function = operations.function;
        long[] argument = new long[operations.kinds];
        for (int kind = 0; kind < argument.length; kind++) {
            argument[kind] = operations.arguments[kind][0];
        }
        return new States() {
            @Override
            public int initial() {
                return 0;
            }

            @Override
            public int step(int state, int kind) {
                return switch (function[kind]) {
                    case Function.ADD -> places.place(places.at(state) + argument[kind]);
                    case Function.READ ->
                        argument[kind] == Function.UNKNOWN || places.at(state) == argument[kind] ? state : ILLEGAL;
                    default -> throw Models.noSuch(function[kind], "a counter");
                };
            }

            @Override
            public String describe(int state) {
                return Long.toString(places.at(state));
            }

            @Override
            public long bytes() {
                return places.bytes() + 8L * argument.length;
            }
        };
    }
}
