package stormproof.model;

import stormproof.util.LongInterner;

/**
 * One value: READ [v] sees it, WRITE [v] sets it, CAS [e, n] sets n where it was e, CAS_FAILED [e, n] saw it was not e.
 */
final class RegisterModel implements Model {
    private final String name;

    /** {@code register} and {@code cas-register} are one model under two names. */
    RegisterModel(String name) {
        this.name = name;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Values(operations, init.length == 0 ? Function.NIL : init[0], values);
    }

    /** A state is the place of its value; a step is compared and set by places. */
    private static final class Values implements States {
        private final LongInterner places = new LongInterner();
        private final String[] values;
        private final int[] function;
        private final int[] first; // READ, WRITE: the value; CAS, CAS_FAILED: the expected one
        private final int[] second;

        Values(Operations operations, long init, String[] values) {
            this.values = values;
            places.place(init);
            function = operations.function;
            first = new int[operations.kinds];
            second = new int[operations.kinds];
            for (int kind = 0; kind < operations.kinds; kind++) {
                long[] arguments = operations.arguments[kind];
                first[kind] = places.place(arguments[0]);
                second[kind] = arguments.length > 1 ? places.place(arguments[1]) : -1;
            }
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        public int step(int state, int kind) {
            return switch (function[kind]) {
                case Function.READ -> state == first[kind] ? state : ILLEGAL;
                case Function.WRITE -> first[kind];
                case Function.CAS -> state == first[kind] ? second[kind] : ILLEGAL;
                case Function.CAS_FAILED -> state != first[kind] ? state : ILLEGAL;
                default -> throw Models.noSuch(function[kind], "a register");
            };
        }

        @Override
        public String describe(int state) {
            return Models.text(values, places.at(state));
        }

        @Override
        public long bytes() {
            return places.bytes() + 8L * first.length;
        }
    }
}
