package stormproof.polynomial;

import java.util.Arrays;
import java.util.Comparator;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Models;
import stormproof.model.Operations;
import stormproof.util.Budget;
import stormproof.util.LongInterner;

/**
 * A queue without order, value by value. O(n log n).
 *
 * <p>Of each value, the k-th dequeue to return needs k elements that were in it at first or whose enqueue had been
 * called by then: else more left than had come, whatever else happened. Where nothing saw the queue empty that
 * suffices. Where something did, an enqueue takes effect as late as it can and its dequeue as early as it can, both at one moment
 * if they span one, and what saw the queue empty at the last moment at which nothing was in it. If there is no such
 * moment, that is a violation where it is certain which dequeue took what and no crashed one could have helped. An
 * order counts once it is replayed; where neither is found, the search decides.
 */
final class UnorderedShortcut extends Polynomial {
    private static final int NONE = -1;

    UnorderedShortcut(Model model) {
        super("unordered-values", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        Attempt attempt = new Attempt(operations, init);
        if (attempt.unknown) {
            return null;
        }
        int surplus = attempt.match();
        if (surplus != NONE) {
            return Decision.violation("operation " + operations.number[surplus] + " took "
                    + Models.text(values, operations.argumentsOf(surplus)[0])
                    + ", of which no more had been put in than were taken");
        }
        int never = attempt.placeEmpties();
        if (never == NONE) {
            return Decision.linearizable(attempt.order());
        }
        return attempt.certain
                ? Decision.violation("operation " + operations.number[never]
                        + " found the queue empty, and at each moment of it something was in the queue")
                : null;
    }

    /** One object's columns. Moments: event p is at 4 p; a dequeue at p can come right after an enqueue at p; what lies
     * between two events is at 4 p + 2. */
    private static final class Attempt {
        private final Operations operations;
        private final LongInterner places = new LongInterner();
        private final int[] place; // by op: of its value
        private final int[] there; // by value: how many were in it at first
        private final int[] partner; // by op: the enqueue or dequeue of the same element
        private final long[] emptyAt; // by op
        boolean certain = true;
        boolean unknown; // whether a dequeue completed and nobody knows what it took

        Attempt(Operations operations, long[] init) {
            this.operations = operations;
            place = new int[operations.count];
            partner = new int[operations.count];
            emptyAt = new long[operations.count];
            Arrays.fill(partner, NONE);
            for (long value : init) {
                places.place(value);
            }
            for (int op = 0; op < operations.count; op++) {
                long value = operations.argumentsOf(op)[0];
                boolean take = operations.functionOf(op) == Function.DEQUEUE;
                boolean open = take && value == Function.UNKNOWN;
                unknown |= open && !operations.crashed(op);
                certain &= !(take && operations.crashed(op));
                place[op] = open || sawEmpty(op) ? NONE : places.place(value);
            }
            there = new int[places.size()];
            for (long value : init) {
                there[places.find(value)]++;
            }
        }

        private boolean sawEmpty(int op) {
            return operations.functionOf(op) == Function.DRAINED
                    || operations.functionOf(op) == Function.DEQUEUE
                            && operations.argumentsOf(op)[0] == Function.NIL;
        }

        /** Give each dequeue an enqueue; a dequeue for which there is none, {@link #NONE} if all have one. */
        int match() {
            int[][] puts = byValue(Function.ENQUEUE);
            int[][] takes = byValue(Function.DEQUEUE);
            for (int value = 0; value < there.length; value++) {
                certain &= there[value] + puts[value].length <= 1;
                long[] returns = new long[takes[value].length];
                for (int i = 0; i < returns.length; i++) {
                    returns[i] = (long) operations.ret[takes[value][i]] << 32 | takes[value][i];
                }
                Arrays.sort(returns);
                int next = 0;
                for (long entry : returns) {
                    int take = (int) entry;
                    if (operations.crashed(take)) {
                        continue;
                    }
                    if (there[value] > 0) {
                        there[value]--;
                        partner[take] = take;
                    } else if (next < puts[value].length && operations.call[puts[value][next]] < operations.ret[take]) {
                        partner[take] = puts[value][next];
                        partner[puts[value][next++]] = take;
                    } else {
                        return take;
                    }
                }
            }
            return NONE;
        }

        private int[][] byValue(int function) {
            int[] size = new int[there.length];
            for (int op = 0; op < operations.count; op++) {
                if (place[op] != NONE && operations.functionOf(op) == function) {
                    size[place[op]]++;
                }
            }
            int[][] all = new int[size.length][];
            for (int value = 0; value < size.length; value++) {
                all[value] = new int[size[value]];
                size[value] = 0;
            }
            for (int op = 0; op < operations.count; op++) {
                if (place[op] != NONE && operations.functionOf(op) == function) {
                    all[place[op]][size[place[op]]++] = op;
                }
            }
            return all;
        }

        /** Find a moment for each operation that saw the queue empty; one that has none, {@link #NONE} if all have. */
        int placeEmpties() {
            long[] spans = occupied();
            for (int op = 0; op < operations.count; op++) {
                if (!sawEmpty(op) || operations.crashed(op)) {
                    continue;
                }
                int at = operations.ret[op] - 1;
                int span = Arrays.binarySearch(spans, (long) at << 32 | Operations.NEVER);
                span = span < 0 ? -span - 2 : span;
                if (span >= 0 && (int) spans[span] >= at) {
                    at = (int) (spans[span] >> 32) - 1;
                }
                if (at < operations.call[op]) {
                    return op;
                }
                emptyAt[op] = 4L * at + 2;
            }
            return NONE;
        }

        /** Stretches of events after each of which something is in the queue: first event and last, in order, with
         * gaps between them. */
        private long[] occupied() {
            long[] all = new long[operations.count + there.length];
            int count = 0;
            for (int op = 0; op < operations.count; op++) {
                boolean put = operations.functionOf(op) == Function.ENQUEUE;
                if (place[op] == NONE || operations.crashed(op)) {
                    continue;
                }
                int from = put ? operations.ret[op] : partner[op] == op ? 0 : Integer.MAX_VALUE;
                int take = put ? partner[op] : op;
                int to = take == NONE ? Operations.NEVER : operations.call[take];
                if (from < to) {
                    all[count++] = (long) from << 32 | to - 1;
                }
            }
            for (int left : there) {
                if (left > 0) {
                    all[count++] = Operations.NEVER - 1;
                }
            }
            Arrays.sort(all, 0, count);
            int merged = 0;
            for (int i = 0; i < count; i++) {
                if (merged > 0 && all[i] >> 32 <= (int) all[merged - 1] + 1L) {
                    int last = Math.max((int) all[merged - 1], (int) all[i]);
                    all[merged - 1] = all[merged - 1] >> 32 << 32 | last;
                } else {
                    all[merged++] = all[i];
                }
            }
            return Arrays.copyOf(all, merged);
        }

        /** All completed operations, and the crashed enqueues that a dequeue needs, in the order of their moments. */
        int[] order() {
            Integer[] chosen = new Integer[operations.count];
            int count = 0;
            for (int op = 0; op < operations.count; op++) {
                boolean needed = operations.functionOf(op) == Function.ENQUEUE && partner[op] != NONE;
                if (!operations.crashed(op) || needed) {
                    chosen[count++] = op;
                }
            }
            Arrays.sort(chosen, 0, count, Comparator.comparingLong(this::moment));
            return Arrays.stream(chosen, 0, count).mapToInt(Integer::intValue).toArray();
        }

        private long moment(int op) {
            boolean put = operations.functionOf(op) == Function.ENQUEUE;
            if (place[op] == NONE) {
                return emptyAt[op];
            }
            int other = partner[op];
            if (other == NONE || other == op) {
                return 4L * (put ? operations.ret[op] : operations.call[op]);
            }
            int from = put ? op : other;
            int to = put ? other : op;
            if (operations.call[to] < operations.ret[from]) {
                return 4L * Math.max(operations.call[from], operations.call[to]) + (put ? 0 : 1);
            }
            return 4L * (put ? operations.ret[from] : operations.call[to]);
        }
    }
}
