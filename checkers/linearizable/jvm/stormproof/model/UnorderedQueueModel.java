package stormproof.model;

import java.util.Arrays;
import java.util.StringJoiner;
import stormproof.util.SequenceInterner;

/**
 * A queue without order: ENQUEUE [v], DEQUEUE [v] of any v that is in it; DEQUEUE [nil] saw it empty, [unknown] took
 * some element. DEQUEUE [v, d] is one of the takes of drain d, DRAINED [d] the end of that drain, which saw the queue
 * empty.
 *
 * <p>Which element a crashed dequeue took is left open until it matters: a known one may be taken while more are in it
 * than were taken unseen, and once all that is left was taken unseen, the queue is empty. That is right for crashed
 * dequeues, which have no deadline: each may take its element at the moment when that is decided.
 */
final class UnorderedQueueModel implements Model {
    @Override
    public String name() {
        return "unordered-queue";
    }

    /** Values are independent of each other where nothing ever saw the queue empty. */
    @Override
    public long part(int function, long[] arguments) {
        if (function == Function.DRAINED || arguments[0] == Function.NIL) {
            return WHOLE;
        }
        return arguments[0] == Function.UNKNOWN ? -1 : arguments[0];
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Elements(operations, init, values);
    }

    /** A content: how many were taken unseen, the ids of the elements in ascending order, then -1 - d of each drain d
     * that is over, in descending order. */
    private static final class Elements extends Transitions {
        private final SequenceInterner contents = new SequenceInterner();
        private final Operations operations;
        private final String[] values;
        private long[] scratch = new long[16];

        Elements(Operations operations, long[] init, String[] values) {
            super(operations.kinds);
            this.operations = operations;
            this.values = values;
            long[] first = new long[init.length + 1];
            System.arraycopy(init, 0, first, 1, init.length);
            Arrays.sort(first, 1, first.length);
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
            boolean empty = end == 1;
            switch (operations.function[kind]) {
                case Function.ENQUEUE:
                    return with(state, length, 1, end, arguments[0], false);
                case Function.DRAINED:
                    return empty ? with(state, length, 1, length, -1 - arguments[0], true) : ILLEGAL;
                case Function.DEQUEUE:
                    if (arguments[0] == Function.NIL || empty) {
                        boolean sawEmpty = arguments[0] == Function.NIL || arguments[0] == Function.UNKNOWN;
                        return empty && sawEmpty ? state : ILLEGAL;
                    }
                    if (arguments[0] == Function.UNKNOWN) {
                        copy(state, length);
                        scratch[0]++;
                        return settled(length, end);
                    }
                    return taken(state, length, end, arguments);
                default:
                    throw Models.noSuch(operations.function[kind], "a queue");
            }
        }

        private int taken(int state, int length, int end, long[] arguments) {
            int at = 1;
            while (at < end && contents.at(state, at) != arguments[0]) {
                at++;
            }
            if (at == end || arguments.length > 1 && isOver(state, end, length, arguments[1])) {
                return ILLEGAL;
            }
            copy(state, length);
            System.arraycopy(scratch, at + 1, scratch, at, length - at - 1);
            return settled(length - 1, end - 1);
        }

        private boolean isOver(int state, int from, int length, long drain) {
            for (int i = from; i < length; i++) {
                if (contents.at(state, i) == -1 - drain) {
                    return true;
                }
            }
            return false;
        }

        /** Where the elements end and the drains begin. */
        private int end(int state, int length) {
            int end = length;
            while (end > 1 && contents.at(state, end - 1) < 0) {
                end--;
            }
            return end;
        }

        /** The state with one more number, at its place in the order of the numbers from..to. */
        private int with(int state, int length, int from, int to, long number, boolean once) {
            copy(state, length);
            int at = from;
            while (at < to && (number >= 0 ? scratch[at] < number : scratch[at] > number)) {
                at++;
            }
            if (once && at < to && scratch[at] == number) {
                return state;
            }
            System.arraycopy(scratch, at, scratch, at + 1, length - at);
            scratch[at] = number;
            return contents.number(scratch, length + 1);
        }

        /** The number of the content in the scratch, whose elements end there; without them if all were taken. */
        private int settled(int length, int end) {
            if (end - 1 > scratch[0]) {
                return contents.number(scratch, length);
            }
            scratch[0] = 0;
            System.arraycopy(scratch, end, scratch, 1, length - end);
            return contents.number(scratch, length - end + 1);
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
            int end = end(state, contents.length(state));
            for (int i = 1; i < end; i++) {
                all.add(Models.text(values, contents.at(state, i)));
            }
            long unseen = contents.at(state, 0);
            return all + (unseen > 0 ? ", " + unseen + " of them taken by dequeues that crashed" : "");
        }

        @Override
        protected long contentBytes() {
            return contents.bytes() + 8L * scratch.length;
        }
    }
}
