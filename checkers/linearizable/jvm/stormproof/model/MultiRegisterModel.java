package stormproof.model;

import java.util.StringJoiner;
import stormproof.util.LongInterner;
import stormproof.util.SequenceInterner;

/**
 * Several registers that one transaction reads and writes at once, its steps in order: TXN [READ or WRITE, key,
 * value]*.
 */
final class MultiRegisterModel implements Model {
    @Override
    public String name() {
        return "multi-register";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Registers(operations, init, values);
    }

    /** A content is the value of each register, registers in the order in which the history names them. */
    private static final class Registers extends Transitions {
        private final SequenceInterner contents = new SequenceInterner();
        private final LongInterner keys = new LongInterner();
        private final Operations operations;
        private final String[] values;
        private final long[] scratch;

        Registers(Operations operations, long[] init, String[] values) {
            super(operations.kinds);
            this.operations = operations;
            this.values = values;
            for (int i = 0; i + 1 < init.length; i += 2) {
                keys.place(init[i]);
            }
            for (long[] triples : operations.arguments) {
                for (int i = 0; i + 2 < triples.length; i += 3) {
                    keys.place(triples[i + 1]);
                }
            }
            scratch = new long[keys.size()];
            for (int i = 0; i + 1 < init.length; i += 2) {
                scratch[keys.find(init[i])] = init[i + 1];
            }
            contents.number(scratch, scratch.length);
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        protected int compute(int state, int kind) {
            if (operations.function[kind] != Function.TXN) {
                throw Models.noSuch(operations.function[kind], "a multi-register");
            }
            contents.copy(state, scratch);
            long[] triples = operations.arguments[kind];
            for (int i = 0; i + 2 < triples.length; i += 3) {
                int register = keys.find(triples[i + 1]);
                if (triples[i] == Function.WRITE) {
                    scratch[register] = triples[i + 2];
                } else if (triples[i + 2] != Function.UNKNOWN && scratch[register] != triples[i + 2]) {
                    return ILLEGAL;
                }
            }
            return contents.number(scratch, scratch.length);
        }

        @Override
        public String describe(int state) {
            StringJoiner all = new StringJoiner(", ", "{", "}");
            for (int i = 0; i < scratch.length; i++) {
                all.add(Models.text(values, keys.at(i)) + ": " + Models.text(values, contents.at(state, i)));
            }
            return all.toString();
        }

        @Override
        protected long contentBytes() {
            return contents.bytes() + keys.bytes();
        }
    }
}
