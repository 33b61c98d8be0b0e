package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.util.Budget;
import stormproof.util.LongHeap;
import stormproof.util.LongInterner;

/**
 * A queue, by the demands on the order of its items ({@link FifoOrder}). O(n log n), but for the search at last.
 *
 * <p>Which dequeue took which item is certain for a value that was put in once. It may be taken as certain, too, where
 * the enqueues of the value can be sorted by call and by return alike, the dequeues as well, and none of them crashed:
 * if a linearization has two such operations the other way round, each of them spans the moment of the other, so that
 * they can change places; the first in goes with the first out. (With crashed dequeues about, only if each item of the
 * value was taken by a completed one, or none.) A crashed enqueue whose item nobody took is left out: no answer needs
 * it.
 *
 * <p>Other values are matched by a guess: in the order of their returns, the dequeues take, of the items that were put
 * in before that return, the one whose enqueue returned first. A dequeue that finds nothing is a violation: any item
 * will do for all later dequeues, so that more have left than had come. An order found on a guess counts once it is
 * replayed. If none is found, the certain values are looked at alone: a linearization without the operations on some
 * values is one still, so that a violation there is one of the whole. Where that tells nothing, {@link FifoMatching}
 * looks for a matching; it is fast unless many operations on equal values span each other.
 */
final class QueueShortcut extends Polynomial {
    private static final int NONE = -1;
    private static final long BYTES_PER_OPERATION = 256;
    // Where the search for a matching gives up: what was tried, and items taken or put to the test.
    private static final long MOST_BYTES = 8L << 20;
    private static final long MOST_STEPS = 500_000;
    private static final long STEPS_PER_OPERATION = 50;

    private final boolean searches;

    /** {@code searches}: whether to look for a matching at once; else a guess is made. */
    QueueShortcut(Model model, boolean searches) {
        super(searches ? "queue-matching" : "queue-order", model);
        this.searches = searches;
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        if (operations.count + init.length > FifoOrder.MOST_ITEMS) {
            return null;
        }
        Attempt attempt = new Attempt(operations, init);
        if (!attempt.sort()) {
            return null;
        }
        Decision unmatched = attempt.match();
        return unmatched != null ? unmatched : searches ? attempt.search(budget) : attempt.order();
    }

    /** One object's columns. */
    private static final class Attempt {
        private final Operations operations;
        private final long[] init;
        private final int sources; // items of the first state, then ops
        private final LongInterner places = new LongInterner();
        private int[] place; // by source: of its value
        private int[] enqueues; // sources by value and call
        private int[] firstEnqueue; // by value
        private int[] dequeues; // completed ones, as sources, by value and return
        private int[] firstDequeue;
        private int[] empties;
        private int[] crashed; // dequeues
        private int[] taker; // by source: the op that took it, NONE
        private boolean[] certain; // by value

        Attempt(Operations operations, long[] init) {
            this.operations = operations;
            this.init = init;
            sources = init.length + operations.count;
        }

        /** A violation when more was taken out than had been put in. */
        Decision match() {
            taker = new int[sources];
            Arrays.fill(taker, NONE);
            for (int value = 0; value < places.size(); value++) {
                Decision unmatched = match(value);
                if (unmatched != null) {
                    return unmatched;
                }
            }
            return null;
        }

        /** By the matching that was made. */
        Decision order() {
            certain = new boolean[places.size()];
            boolean allCertain = true;
            for (int value = 0; value < places.size(); value++) {
                certain[value] = isCertain(value);
                allCertain &= certain[value];
            }
            Decision whole = order(false);
            if (whole != null && (whole.valid() || allCertain)) {
                return whole.valid() ? whole : withTwins(whole);
            }
            Decision part = allCertain ? null : order(true);
            return part != null && !part.valid() ? withTwins(part) : null;
        }

        /** By a matching that is looked for. */
        Decision search(Budget budget) {
            long bytes = MOST_BYTES + BYTES_PER_OPERATION * sources;
            if (!budget.take(bytes)) {
                return null;
            }
            try {
                FifoMatching matching = matching();
                return switch (matching.search(MOST_STEPS + STEPS_PER_OPERATION * sources, MOST_BYTES, budget)) {
                    case FOUND -> found(matching);
                    case NONE -> Decision.violation(
                            "whichever dequeue of a value takes what an enqueue put in, some items pass each other");
                    case GAVE_UP -> null;
                };
            } finally {
                budget.giveBack(bytes);
            }
        }

        private FifoMatching matching() {
            int outs = dequeues.length;
            long[] dequeueCall = new long[outs + empties.length];
            long[] dequeueReturn = new long[outs + empties.length];
            int[] dequeueValue = new int[outs + empties.length];
            for (int i = 0; i < dequeueValue.length; i++) {
                int source = i < outs ? dequeues[i] : init.length + empties[i - outs];
                dequeueCall[i] = 2L * called(source);
                dequeueReturn[i] = 2L * returned(source);
                dequeueValue[i] = i < outs ? place[source] : -1;
            }
            return new FifoMatching(
                    Arrays.stream(enqueues).mapToLong(source -> 2L * called(source)).toArray(),
                    Arrays.stream(enqueues).mapToLong(this::doubledReturn).toArray(),
                    Arrays.stream(enqueues).map(source -> place[source]).toArray(),
                    dequeueCall,
                    dequeueReturn,
                    dequeueValue,
                    Arrays.stream(crashed).mapToLong(op -> 2L * operations.call[op]).toArray(),
                    places.size());
        }

        private long doubledReturn(int source) {
            long ret = returned(source);
            return ret == Operations.NEVER ? Long.MAX_VALUE : source < init.length ? 2L * ret + 1 : 2L * ret;
        }

        private Decision found(FifoMatching matching) {
            FifoOrder order = new FifoOrder(operations, crashed, enqueues.length + empties.length);
            boolean[] gone = new boolean[enqueues.length];
            int lost = 0;
            for (int i = 0; i < matching.taken(); i++) {
                int d = matching.dequeue(i);
                int e = matching.enqueue(i);
                if (e == NONE) {
                    order.empty(empties[d - dequeues.length]);
                    continue;
                }
                gone[e] = true;
                add(order, enqueues[e], d == NONE ? crashed[lost++] : dequeues[d] - init.length);
            }
            long[] rest = new long[enqueues.length];
            int count = 0;
            for (int e = 0; e < enqueues.length; e++) {
                if (!gone[e] && returned(enqueues[e]) != Operations.NEVER) {
                    rest[count++] = called(enqueues[e]) + init.length << 32 | enqueues[e];
                }
            }
            Arrays.sort(rest, 0, count);
            for (int i = 0; i < count; i++) {
                add(order, (int) rest[i], NONE);
            }
            return order.asGiven();
        }

        private void add(FifoOrder order, int source, int by) {
            if (source < init.length) {
                order.first(source, by);
            } else {
                order.item(source - init.length, by);
            }
        }

        /** Who took what is certain only as long as all operations on the same value are there. */
        private Decision withTwins(Decision violation) {
            boolean[] values = new boolean[places.size()];
            for (int op : violation.culprits()) {
                values[place[init.length + op]] = true;
            }
            boolean[] in = new boolean[operations.count];
            for (int source : enqueues) {
                in[Math.max(0, source - init.length)] |= source >= init.length && values[place[source]];
            }
            for (int source : dequeues) {
                in[source - init.length] |= values[place[source]];
            }
            return Decision.violation(violation.reason(), Blocks.positions(in));
        }

        /** Bring the operations into columns; false when they are of another sort. */
        boolean sort() {
            int[] in = new int[sources];
            long[] out = new long[operations.count];
            int[] empty = new int[operations.count];
            int[] lost = new int[operations.count];
            int ins = 0;
            int outs = 0;
            int emptyCount = 0;
            int lostCount = 0;
            for (int i = 0; i < init.length; i++) {
                in[ins++] = i;
            }
            for (int op = 0; op < operations.count; op++) {
                long value = operations.argumentsOf(op)[0];
                if (operations.functionOf(op) == Function.ENQUEUE) {
                    in[ins++] = init.length + op;
                } else if (operations.crashed(op)) {
                    lost[lostCount++] = op;
                } else if (value == Function.NIL) {
                    empty[emptyCount++] = op;
                } else if (value == Function.UNKNOWN) {
                    return false;
                } else {
                    out[outs++] = (long) operations.ret[op] << 32 | init.length + op;
                }
            }
            empties = Arrays.copyOf(empty, emptyCount);
            crashed = Arrays.copyOf(lost, lostCount);
            Arrays.sort(out, 0, outs);
            place = new int[sources];
            for (int source = 0; source < sources; source++) {
                place[source] = places.place(value(source));
            }
            firstEnqueue = new int[places.size() + 1];
            firstDequeue = new int[places.size() + 1];
            enqueues = byValue(Arrays.copyOf(in, ins), firstEnqueue);
            dequeues = byValue(Arrays.stream(out, 0, outs).mapToInt(source -> (int) source).toArray(), firstDequeue);
            int nil = places.find(Function.NIL);
            return nil == LongInterner.ABSENT || firstEnqueue[nil] == firstEnqueue[nil + 1];
        }

        private long value(int source) {
            return source < init.length ? init[source] : operations.argumentsOf(source - init.length)[0];
        }

        /** Sources by value, else in the order given; {@code first} is filled with where each value begins. */
        private int[] byValue(int[] given, int[] first) {
            for (int source : given) {
                first[place[source] + 1]++;
            }
            for (int value = 1; value < first.length; value++) {
                first[value] += first[value - 1];
            }
            int[] end = first.clone();
            int[] sorted = new int[given.length];
            for (int source : given) {
                sorted[end[place[source]]++] = source;
            }
            return sorted;
        }

        private long returned(int source) {
            return source < init.length ? source - init.length : operations.ret[source - init.length];
        }

        private long called(int source) {
            return source < init.length ? source - init.length : operations.call[source - init.length];
        }

        private boolean isCertain(int value) {
            int ins = firstEnqueue[value + 1] - firstEnqueue[value];
            int outs = firstDequeue[value + 1] - firstDequeue[value];
            if (ins <= 1 || outs == 0) {
                return true;
            }
            if (crashed.length > 0 && ins != outs) {
                return false;
            }
            for (int i = firstEnqueue[value]; i < firstEnqueue[value + 1]; i++) {
                boolean sorted = i == firstEnqueue[value] || returned(enqueues[i - 1]) < returned(enqueues[i]);
                if (!sorted || returned(enqueues[i]) == Operations.NEVER) {
                    return false;
                }
            }
            for (int i = firstDequeue[value] + 1; i < firstDequeue[value + 1]; i++) {
                if (called(dequeues[i - 1]) > called(dequeues[i])) {
                    return false;
                }
            }
            return true;
        }

        private Decision match(int value) {
            LongHeap there = new LongHeap(); // sources by return
            int next = firstEnqueue[value];
            for (int i = firstDequeue[value]; i < firstDequeue[value + 1]; i++) {
                while (next < firstEnqueue[value + 1] && called(enqueues[next]) < returned(dequeues[i])) {
                    int source = enqueues[next++];
                    there.add(returned(source) + init.length << 32 | source);
                }
                if (there.isEmpty()) {
                    return tooMany(value, i, next);
                }
                taker[(int) there.poll()] = dequeues[i] - init.length;
            }
            return null;
        }

        private Decision tooMany(int value, int last, int next) {
            int outs = last - firstDequeue[value] + 1;
            int ins = next - firstEnqueue[value];
            int[] culprits = new int[outs + ins];
            int put = 0;
            for (int i = firstDequeue[value]; i <= last; i++) {
                culprits[put++] = dequeues[i] - init.length;
            }
            for (int i = firstEnqueue[value]; i < next; i++) {
                if (enqueues[i] >= init.length) {
                    culprits[put++] = enqueues[i] - init.length;
                }
            }
            return Decision.violation(
                    "operation " + operations.number[dequeues[last] - init.length] + " is the dequeue number " + outs
                            + " of a value that had been put in " + ins + " times at most",
                    Arrays.copyOf(culprits, put));
        }

        private Decision order(boolean certainOnly) {
            FifoOrder order = new FifoOrder(operations, crashed, enqueues.length + empties.length);
            for (int source : enqueues) {
                boolean unseen = taker[source] == NONE && returned(source) == Operations.NEVER;
                if (unseen || certainOnly && !certain[place[source]]) {
                    continue;
                }
                add(order, source, taker[source]);
            }
            return order.decide(empties);
        }
    }
}
