package stormproof;

import java.util.Arrays;

/**
 * A queue, by the demands on the order of its items ({@link FifoOrder}). O(n log n).
 *
 * <p>Which dequeue took which item is certain for a value that was put in once. It may be taken as certain, too, where
 * the enqueues of the value can be sorted by call and by return alike, the dequeues as well, and none of them crashed: if a
 * linearization has two such operations the other way round, each of them spans the moment of the other, so that they can
 * change places; the first in goes with the first out. (With crashed dequeues about, only if each item of the value was
 * taken by a completed one, or none.) A crashed enqueue whose item nobody took is left out: no answer needs it.
 *
 * <p>Other values are matched by a guess: in the order of their returns, the dequeues take, of the items that were put in
 * before that return, the one whose enqueue returned first. A dequeue that finds nothing is a violation: any item will do
 * for all later dequeues, so that more have left than had come. An order found on a guess counts once it is replayed. If
 * none is found, the certain values are looked at alone: a linearization without the operations on some values is one
 * still, so that a violation there is one of the whole.
 */
final class QueueShortcut extends Polynomial {
    private static final int NONE = -1;

    QueueShortcut(Model model) {
        super("queue-order", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values) {
        if (operations.count + init.length > FifoOrder.MOST_ITEMS) {
            return null;
        }
        return new Attempt(operations, init).decide();
    }

    /** One object's columns. */
    private static final class Attempt {
        private final Operations operations;
        private final long[] init;
        private final int sources; // items of the first state, then ops
        private final Numbers places = new Numbers();
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

        Decision decide() {
            if (!sort()) {
                return null;
            }
            taker = new int[sources];
            Arrays.fill(taker, NONE);
            certain = new boolean[places.size()];
            boolean allCertain = true;
            for (int value = 0; value < places.size(); value++) {
                certain[value] = isCertain(value);
                allCertain &= certain[value];
                Decision unmatched = match(value);
                if (unmatched != null) {
                    return unmatched;
                }
            }
            Decision whole = order(false);
            if (whole != null && (whole.valid() || allCertain)) {
                return whole.valid() ? whole : withTwins(whole);
            }
            Decision part = allCertain ? null : order(true);
            return part == null || part.valid() ? null : withTwins(part);
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

        private boolean sort() {
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
            return nil == Numbers.ABSENT || firstEnqueue[nil] == firstEnqueue[nil + 1];
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
                if (source < init.length) {
                    order.first(source, taker[source]);
                } else {
                    order.item(source - init.length, taker[source]);
                }
            }
            return order.decide(empties);
        }
    }
}
