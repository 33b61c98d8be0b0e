package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Operations;
import stormproof.util.LongHeap;

/**
 * The order of items in a queue, when it is known which dequeue took which enqueue's item. O(n log n), exact.
 *
 * <p>An item u must stand before an item v if u was put in before v (enqueue u returned before enqueue v was called),
 * or taken out before v was taken out or put in. A queue's history is linearizable exactly if these demands have no
 * cycle, no item leaves before it comes, and each empty answer has a moment at which no item was surely inside (between
 * the return of its enqueue and the call of its dequeue). Known as the bad patterns of queues (Henzinger, Sezgin and
 * Vafeiadis, Aspect-oriented linearizability proofs, 2013; Abdulla et al., PLDI 2025; Lee and Mathur, OOPSLA 2025).
 *
 * <p>Here the order is built: always the next item that nobody left has to precede. If every item left has a
 * predecessor left, there is a cycle, hence no linearization. Else each item's enqueue takes effect at the latest call
 * among the enqueues up to it, its dequeue at the latest among all calls up to it, which is before their returns
 * because later items were not to precede it. An empty answer joins as an item put in and taken out at one chosen
 * moment: whatever must be before that moment must also be before everything else that must precede it, so that no
 * cycle comes from it.
 *
 * <p>A crashed dequeue takes one item at any time after its call, or none. An item that nobody took and that was put in
 * before one that left has to be taken by one of them, and only such an item. The order takes these as late as it can,
 * each by the crashed dequeue that was called first: whichever else is chosen leaves a later one for the next item
 * whose turn must come before the same return.
 */
final class FifoOrder {
    /** An event that never comes. */
    private static final long NEVER = Long.MAX_VALUE;
    private static final int ITEM_BITS = 24;
    /** How many items there may be. */
    static final int MOST_ITEMS = (1 << ITEM_BITS) - 1;

    private static final int NONE = -1;

    private final Operations operations;
    private final int[] crashedDequeues; // by call
    private int usedDequeues;

    // By item: ops, NONE for an item of the first state or one that nobody took; positions, doubled. An empty answer
    // has its op in both columns.
    private final int[] enqueue;
    private final int[] dequeue;
    private final long[] enqueueCall;
    private final long[] enqueueReturn;
    private final long[] dequeueCall;
    private final long[] dequeueReturn;
    private final boolean[] left; // not yet in the order
    private int items;

    private final int[] sequence; // items in order
    private int placed;
    private boolean exact = true;

    /** {@code most}: items and empty answers at most. */
    FifoOrder(Operations operations, int[] crashedDequeues, int most) {
        this.operations = operations;
        this.crashedDequeues = crashedDequeues;
        enqueue = new int[most];
        dequeue = new int[most];
        enqueueCall = new long[most];
        enqueueReturn = new long[most];
        dequeueCall = new long[most];
        dequeueReturn = new long[most];
        left = new boolean[most];
        sequence = new int[most];
    }

    /** The item at this place of the first state, the front is 0. {@code by}: the op that took it, -1: none. */
    void first(int place, int by) {
        enqueueCall[items] = 2L * place - Integer.MAX_VALUE;
        enqueueReturn[items] = enqueueCall[items] + 1;
        finish(NONE, by);
    }

    /** An item that {@code op} put in. */
    void item(int op, int by) {
        enqueueCall[items] = 2L * operations.call[op];
        enqueueReturn[items] = operations.crashed(op) ? NEVER : 2L * operations.ret[op];
        finish(op, by);
    }

    private void finish(int op, int by) {
        enqueue[items] = op;
        dequeue[items] = by;
        dequeueCall[items] = by == NONE ? NEVER : 2L * operations.call[by];
        dequeueReturn[items] = by == NONE ? NEVER : 2L * operations.ret[by];
        items++;
    }

    /** A dequeue that saw the queue empty, after the items so far. */
    void empty(int op) {
        enqueue[items] = dequeue[items] = op;
        enqueueCall[items] = dequeueCall[items] = 2L * operations.call[op];
        items++;
    }

    /** The order when the items were given in theirs, with the empty answers between them. */
    Decision asGiven() {
        for (placed = 0; placed < items; placed++) {
            sequence[placed] = placed;
        }
        return Decision.linearizable(merge());
    }

    /**
     * Decide, given also the dequeues that saw the queue empty. Null: no order was found, but there may be one (only
     * when there are both empty answers and crashed dequeues).
     */
    Decision decide(int[] empties) {
        for (int i = 0; i < items; i++) {
            if (dequeueReturn[i] < enqueueCall[i]) {
                return Decision.violation(
                        name(dequeue[i]) + " took what " + name(enqueue[i]) + " put in only later",
                        dequeue[i],
                        enqueue[i]);
            }
        }
        Decision covered = placeEmpties(empties);
        if (covered != null) {
            return covered;
        }
        Decision stuck = arrange();
        if (stuck != null) {
            return exact ? stuck : null;
        }
        return Decision.linearizable(merge());
    }

    private Decision placeEmpties(int[] empties) {
        if (empties.length == 0) {
            return null;
        }
        long[] from = new long[items];
        long[] to = new long[items];
        int[] who = new int[items];
        int count = 0;
        for (int i : sorted(items, enqueueReturn)) {
            if (enqueueReturn[i] < dequeueCall[i] && (dequeue[i] != NONE || crashedDequeues.length == 0)) {
                if (count > 0 && enqueueReturn[i] < to[count - 1]) {
                    to[count - 1] = Math.max(to[count - 1], dequeueCall[i]);
                } else {
                    from[count] = enqueueReturn[i];
                    to[count] = dequeueCall[i];
                    who[count++] = i;
                }
            }
        }
        for (int op : empties) {
            long moment = 2L * operations.call[op] + 1;
            int found = Arrays.binarySearch(from, 0, count, moment);
            int around = (found < 0 ? -found - 1 : found) - 1;
            if (around >= 0 && to[around] > moment) {
                moment = to[around] == NEVER ? NEVER : to[around] + 1;
            }
            if (moment > 2L * operations.ret[op]) {
                return Decision.violation(
                        name(op) + " saw the queue empty, while some item was surely inside at each moment (one from "
                                + name(enqueue[who[around]]) + ")");
            }
            enqueue[items] = dequeue[items] = op;
            enqueueCall[items] = dequeueCall[items] = moment;
            enqueueReturn[items] = dequeueReturn[items] = moment;
            items++;
        }
        exact = crashedDequeues.length == 0;
        return null;
    }

    private boolean isEmptyAnswer(int item) {
        return dequeue[item] != NONE && dequeue[item] == enqueue[item];
    }

    /** Fill {@link #sequence}; a violation when that is stuck. */
    private Decision arrange() {
        long latest = Long.MIN_VALUE; // enqueue call among what leaves
        for (int i = 0; i < items; i++) {
            latest = dequeue[i] == NONE ? latest : Math.max(latest, enqueueCall[i]);
        }
        int remaining = 0;
        for (int i = 0; i < items; i++) {
            left[i] = dequeue[i] != NONE || enqueueReturn[i] < latest;
            remaining += left[i] ? 1 : 0;
        }
        int[] byCall = sorted(items, enqueueCall);
        int[] byReturn = sorted(items, enqueueReturn);
        int[] byLeaving = sorted(items, dequeueReturn);
        LongHeap ready = new LongHeap(); // items, by the later of their calls
        int call = 0;
        int ret = 0;
        int leaving = 0;
        while (remaining > 0) {
            while (!left[byReturn[ret]]) {
                ret++;
            }
            while (!left[byLeaving[leaving]]) {
                leaving++;
            }
            int in = byReturn[ret];
            int out = byLeaving[leaving];
            while (call < items && enqueueCall[byCall[call]] <= enqueueReturn[in]) {
                int i = byCall[call++];
                if (left[i] && dequeue[i] != NONE) {
                    ready.add(packed(Math.max(enqueueCall[i], dequeueCall[i]), i));
                }
            }
            int next;
            if (!ready.isEmpty() && ready.peek() <= packed(dequeueReturn[out], MOST_ITEMS)) {
                next = (int) ready.poll() & MOST_ITEMS;
            } else if (dequeue[in] == NONE && takenBefore(in, dequeueReturn[out])) {
                next = in;
            } else {
                return contradiction(in, out);
            }
            left[next] = false;
            sequence[placed++] = next;
            remaining--;
        }
        for (int i : byCall) {
            if (dequeue[i] == NONE && enqueueReturn[i] >= latest) {
                sequence[placed++] = i;
            }
        }
        return null;
    }

    /** Let the next crashed dequeue take this item, if that can be before a position. */
    private boolean takenBefore(int item, long position) {
        if (usedDequeues == crashedDequeues.length) {
            return false;
        }
        long call = 2L * operations.call[crashedDequeues[usedDequeues]];
        if (Math.max(call, enqueueCall[item]) > position) {
            return false;
        }
        dequeue[item] = crashedDequeues[usedDequeues++];
        dequeueCall[item] = call;
        return true;
    }

    /** {@code in}: the enqueue that returned first among what is left, {@code out}: the dequeue that did. */
    private Decision contradiction(int in, int out) {
        exact |= dequeue[in] != NONE;
        if (dequeue[in] == NONE) {
            String all = crashedDequeues.length == 0 ? "" : " and no crashed dequeue can have taken it";
            return new Decision(
                    null,
                    name(enqueue[in]) + " put an item in before " + name(enqueue[out])
                            + " did; the second was taken by "
                            + name(dequeue[out]) + ", the first by nobody" + all,
                    known(enqueue[in], enqueue[out], dequeue[out]));
        }
        return new Decision(
                null,
                name(enqueue[in]) + " put an item in before " + name(enqueue[out])
                        + " did, but they left in the other order ("
                        + name(dequeue[out]) + ", " + name(dequeue[in]) + ")",
                known(enqueue[in], enqueue[out], dequeue[out], dequeue[in]));
    }

    private static int[] known(int... ops) {
        return Arrays.stream(ops).filter(op -> op != NONE).distinct().toArray();
    }

    private String name(int op) {
        return op == NONE ? "the first state" : "operation " + operations.number[op];
    }

    /** Both sequences by the moments at which their ops take effect. */
    private int[] merge() {
        int[] order = new int[2 * placed];
        int count = 0;
        int in = 0;
        int out = 0;
        long inAt = Long.MIN_VALUE;
        long outAt = Long.MIN_VALUE;
        while (in < placed || out < placed) {
            if (out < placed && dequeue[sequence[out]] == NONE) {
                out++;
                continue;
            }
            if (in < placed) {
                inAt = Math.max(inAt, enqueueCall[sequence[in]]);
            }
            if (out < placed) {
                outAt = Math.max(outAt, Math.max(enqueueCall[sequence[out]], dequeueCall[sequence[out]]));
            }
            boolean waits = in < placed && isEmptyAnswer(sequence[in]) && out < in;
            boolean putIn = in < placed && (out >= in || inAt <= outAt) && !(waits && out < placed);
            if (in < placed && in == out && isEmptyAnswer(sequence[in])) {
                order[count++] = enqueue[sequence[in]];
                in++;
                out++;
            } else if (putIn || out >= placed) {
                if (enqueue[sequence[in]] != NONE) {
                    order[count++] = enqueue[sequence[in]];
                }
                in++;
            } else {
                order[count++] = dequeue[sequence[out++]];
            }
        }
        return Arrays.copyOf(order, count);
    }

    /** A position and an item in one number; never comes last. */
    private static long packed(long position, int item) {
        return Math.min(position, 2L * Operations.NEVER) + Integer.MAX_VALUE << ITEM_BITS | item;
    }

    /** The numbers below {@code count} by a column that holds doubled positions. */
    static int[] sorted(int count, long[] column) {
        long[] all = new long[count];
        for (int i = 0; i < count; i++) {
            all[i] = packed(column[i], i);
        }
        Arrays.sort(all);
        int[] result = new int[count];
        for (int i = 0; i < count; i++) {
            result[i] = (int) all[i] & MOST_ITEMS;
        }
        return result;
    }
}
