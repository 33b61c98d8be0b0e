package stormproof.model;

import java.util.Arrays;
import java.util.StringJoiner;
import stormproof.util.SequenceInterner;

/**
 * A queue without order: ENQUEUE [v], DEQUEUE [v] of any v that is in it; DEQUEUE [nil] saw it empty, [unknown] took
 * some element. DEQUEUE [v, d] is one of the takes of drain d, DRAINED [d] the end of that drain, which saw the queue
 * empty.
 *
 * <p>Which element a dequeue of an unknown value took is left open. In a state such dequeues stand between layers of
 * elements: each took one of those before it. So before the i-th of them stand at least i elements; where it is just
 * i, all of these are gone.
 */
final class UnorderedQueueModel implements Model {
    @Override
    public String name() {
        return "unordered-queue";
    }

    /**
     * Values are independent of each other where nothing ever saw the queue empty, and every dequeue that took one says
     * which. One that crashed may have taken nothing.
     */
    @Override
    public long part(int function, long[] arguments, boolean crashed) {
        boolean unknown = arguments[0] == Function.UNKNOWN;
        if (function == Function.DRAINED || arguments[0] == Function.NIL || (unknown && !crashed)) {
            return WHOLE;
        }
        return unknown ? -1 : arguments[0];
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Elements(operations, init, values);
    }

    /** A content: layers of the ids of elements, ascending in each; {@link #TAKE} between two of them; then TAKE - 1 - d
     * of each drain d that is over, descending. */
    private static final class Elements extends Transitions {
        private static final long TAKE = -1;

        private final SequenceInterner contents = new SequenceInterner();
        private final Operations operations;
        private final String[] values;
        private long[] scratch = new long[16];

        Elements(Operations operations, long[] init, String[] values) {
            super(operations.kinds);
            this.operations = operations;
            this.values = values;
            long[] first = init.clone();
            Arrays.sort(first);
            contents.number(first, first.length);
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        protected int compute(int state, int kind) {
            long[] arguments = operations.arguments[kind];
            int length = contents.length(state);
            int end = end(state, length);
            boolean empty = end == 0;
            switch (operations.function[kind]) {
                case Function.ENQUEUE:
                    return with(state, length, layer(state, end), end, arguments[0]);
                case Function.DRAINED:
                    if (!empty) {
                        return ILLEGAL;
                    }
                    return isOver(state, arguments[0]) ? state : with(state, length, 0, length, over(arguments[0]));
                case Function.DEQUEUE:
                    if (empty || arguments[0] == Function.NIL) {
                        boolean sawEmpty = arguments[0] == Function.NIL || arguments[0] == Function.UNKNOWN;
                        return empty && sawEmpty ? state : ILLEGAL;
                    }
                    if (arguments.length > 1 && isOver(state, arguments[1])) {
                        return ILLEGAL;
                    }
                    if (arguments[0] == Function.UNKNOWN) {
                        insert(state, length, end, TAKE);
                        return settled(length + 1, end + 1);
                    }
                    return taken(state, length, end, arguments);
                default:
                    throw Models.noSuch(operations.function[kind], "a queue");
            }
        }

        /** Of several equal elements the latest goes, which leaves the unknown takes the most choice. */
        private int taken(int state, int length, int end, long[] arguments) {
            int at = end - 1;
            while (at >= 0 && contents.at(state, at) != arguments[0]) {
                at--;
            }
            if (at < 0) {
                return ILLEGAL;
            }
            copy(state, length);
            System.arraycopy(scratch, at + 1, scratch, at, length - at - 1);
            return settled(length - 1, end - 1);
        }

        private static long over(long drain) {
            return TAKE - 1 - drain;
        }

        private boolean isOver(int state, long drain) {
            for (int i = contents.length(state) - 1; i >= 0 && contents.at(state, i) < TAKE; i--) {
                if (contents.at(state, i) == over(drain)) {
                    return true;
                }
            }
            return false;
        }

        /** Where the layers end and the drains begin. */
        private int end(int state, int length) {
            int end = length;
            while (end > 0 && contents.at(state, end - 1) < TAKE) {
                end--;
            }
            return end;
        }

        /** Where the last layer begins. */
        private int layer(int state, int end) {
            int from = end;
            while (from > 0 && contents.at(state, from - 1) != TAKE) {
                from--;
            }
            return from;
        }

        /** The state with one more number, at its place in the order of those from..to. */
        private int with(int state, int length, int from, int to, long number) {
            int at = from;
            while (at < to && (number >= 0 ? contents.at(state, at) < number : contents.at(state, at) > number)) {
                at++;
            }
            insert(state, length, at, number);
            return contents.number(scratch, length + 1);
        }

        private void insert(int state, int length, int at, long number) {
            copy(state, length);
            System.arraycopy(scratch, at, scratch, at + 1, length - at);
            scratch[at] = number;
        }

        /** The number of the content in the scratch, whose layers end there, without what surely is gone. */
        private int settled(int length, int end) {
            int elements = 0;
            int takes = 0;
            int gone = 0;
            for (int i = 0; i < end; i++) {
                if (scratch[i] != TAKE) {
                    elements++;
                } else if (++takes == elements) {
                    gone = i + 1;
                }
            }
            System.arraycopy(scratch, gone, scratch, 0, length - gone);
            return contents.number(scratch, length - gone);
        }

        private void copy(int state, int length) {
            if (scratch.length < length + 1) {
                scratch = new long[2 * length];
            }
            contents.copy(state, scratch);
        }

        @Override
        public String describe(int state) {
            StringJoiner all = new StringJoiner(", ", "{", "}");
            int takes = 0;
            for (int i = 0; i < contents.length(state) && contents.at(state, i) >= TAKE; i++) {
                if (contents.at(state, i) == TAKE) {
                    takes++;
                } else {
                    all.add(Models.text(values, contents.at(state, i)));
                }
            }
            return all + (takes > 0 ? ", " + takes + " of them taken by dequeues that crashed" : "");
        }

        @Override
        protected long contentBytes() {
            return contents.bytes() + 8L * scratch.length;
        }
    }
}
