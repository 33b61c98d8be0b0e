package stormproof.model;

import java.util.Arrays;
import java.util.StringJoiner;
import stormproof.util.LongInterner;
import stormproof.util.SequenceInterner;

/**
 * A set: ADD [e, changed] and REMOVE [e, changed] (changed: 1 when e was absent, present before; unknown when not
 * told), CONTAINS [e, 0 or 1], READ [all elements].
 */
final class SetModel implements Model {
    @Override
    public String name() {
        return "set";
    }

    /** The elements are independent of each other, but for reads of all of them. */
    @Override
    public long part(int function, long[] arguments, boolean crashed) {
        return function == Function.READ ? WHOLE : arguments[0];
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Members(operations, init, values);
    }

    /** A content is a bit set over the elements that the history names. */
    private static final class Members extends Transitions {
        private final SequenceInterner contents = new SequenceInterner();
        private final LongInterner elements = new LongInterner();
        private final Operations operations;
        private final String[] values;
        private final int[] expected; // of a READ: the state it must find
        private final long[] scratch;

        Members(Operations operations, long[] init, String[] values) {
            super(operations.kinds);
            this.operations = operations;
            this.values = values;
            for (long element : init) {
                elements.place(element);
            }
            for (int kind = 0; kind < operations.kinds; kind++) {
                boolean whole = operations.function[kind] == Function.READ;
                long[] arguments = operations.arguments[kind];
                for (int i = 0; i < (whole ? arguments.length : 1); i++) {
                    elements.place(arguments[i]);
                }
            }
            scratch = new long[(elements.size() + 63) >> 6];
            number(init);
            expected = new int[operations.kinds];
            for (int kind = 0; kind < operations.kinds; kind++) {
                expected[kind] =
                        operations.function[kind] == Function.READ ? number(operations.arguments[kind]) : ILLEGAL;
            }
        }

        private int number(long[] members) {
            Arrays.fill(scratch, 0);
            for (long member : members) {
                int place = elements.find(member);
                scratch[place >> 6] |= 1L << place;
            }
            return contents.number(scratch, scratch.length);
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        protected int compute(int state, int kind) {
            if (operations.function[kind] == Function.READ) {
                return state == expected[kind] ? state : ILLEGAL;
            }
            int place = elements.find(operations.arguments[kind][0]);
            long told = operations.arguments[kind][1];
            boolean present = has(state, place);
            switch (operations.function[kind]) {
                case Function.CONTAINS:
                    return told == Function.UNKNOWN || told == (present ? 1 : 0) ? state : ILLEGAL;
                case Function.ADD, Function.REMOVE:
                    boolean changes = present == (operations.function[kind] == Function.REMOVE);
                    if (told != Function.UNKNOWN && told != (changes ? 1 : 0)) {
                        return ILLEGAL;
                    }
                    return changes ? flip(state, place) : state;
                default:
                    throw Models.noSuch(operations.function[kind], "a set");
            }
        }

        private boolean has(int state, int place) {
            return (contents.at(state, place >> 6) >>> place & 1) != 0;
        }

        private int flip(int state, int place) {
            contents.copy(state, scratch);
            scratch[place >> 6] ^= 1L << place;
            return contents.number(scratch, scratch.length);
        }

        @Override
        public String describe(int state) {
            StringJoiner all = new StringJoiner(", ", "{", "}");
            for (int i = 0; i < elements.size(); i++) {
                if (has(state, i)) {
                    all.add(Models.text(values, elements.at(i)));
                }
            }
            return all.toString();
        }

        @Override
        protected long contentBytes() {
            return contents.bytes() + elements.bytes();
        }
    }
}
