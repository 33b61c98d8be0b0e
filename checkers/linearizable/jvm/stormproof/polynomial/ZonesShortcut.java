package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.util.Budget;

/**
 * A register whose observed values were each written once: decided by its {@link Blocks}, compare-and-sets included.
 *
 * <p>A value is <em>needed</em> when a completed read or compare-and-set saw it, or a compare-and-set that must have
 * happened because the value it wrote is needed. Each needed value must have one writer only (the first state is one);
 * values that nobody saw may be written as often as one likes. Then:
 *
 * <ul>
 *   <li>A crashed write of a needed value happened; another one is left out. That is exact but for failed
 *       compare-and-sets: take it out of a linearization, and what stands between it and the next write, no observer of
 *       its value, stays legal.
 *   <li>A compare-and-set from e is the last to see e, so that its write follows e's segment; two from one e are a
 *       violation, as e is written once. From e to e itself it is a read.
 *   <li>A failed compare-and-set of e stands anywhere but in e's segment. It is put into the order at the first place
 *       that real time and the others allow. That is a heuristic; an op of e's segment that returned before its call
 *       and one that was called after its return are a violation, because then the segment surely spans it.
 * </ul>
 */
final class ZonesShortcut extends Polynomial {
    private static final int NONE = -1;
    private static final int MANY = -2;

    private final RegisterView.Maker maker;

    ZonesShortcut(Model model, RegisterView.Maker maker) {
        super("zones", model);
        this.maker = maker;
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        RegisterView view = maker.view(operations, init, values);
        return view == null ? null : new Attempt(view).decide();
    }

    /** One object's columns. */
    private static final class Attempt {
        private final Operations operations;
        private final RegisterView view;
        private final Blocks blocks;
        private final int count;
        private final int[] sees;
        private final int[] writes;
        private final int[] refuses;
        private int[] writer; // by value: op, count for the first state, NONE, MANY
        private boolean[] needed; // by value
        private int refusals; // completed ones

        Attempt(RegisterView view) {
            this.view = view;
            operations = view.operations;
            count = operations.count;
            sees = view.sees;
            writes = view.writes;
            refuses = view.refuses;
            blocks = new Blocks(operations);
        }

        Decision decide() {
            findWriters();
            Decision unwritten = findNeeded();
            if (unwritten != null) {
                return unwritten;
            }
            for (int value = 0; value < view.values; value++) {
                if (needed[value] && writer[value] == MANY) {
                    return null;
                }
            }
            Decision twice = build();
            if (twice != null) {
                return twice;
            }
            Decision decision = blocks.decide();
            return decision.valid() && refusals > 0 ? withRefusals(decision.order()) : decision;
        }

        private void findWriters() {
            writer = new int[view.values];
            Arrays.fill(writer, NONE);
            writer[0] = blocks.initial;
            for (int op = 0; op < count; op++) {
                if (writes[op] != NONE) {
                    writer[writes[op]] = writer[writes[op]] == NONE ? op : MANY;
                }
            }
        }

        private Decision findNeeded() {
            needed = new boolean[view.values];
            int[] open = new int[view.values];
            int size = 0;
            for (int op = 0; op < count; op++) {
                if (sees[op] != NONE && !operations.crashed(op)) {
                    if (writer[sees[op]] == NONE) {
                        return Decision.violation("operation " + operations.number[op]
                                + " saw a value that nobody wrote", op);
                    }
                    if (!needed[sees[op]]) {
                        needed[sees[op]] = true;
                        open[size++] = sees[op];
                    }
                }
            }
            while (size > 0) {
                int by = writer[open[--size]];
                if (by >= 0 && by < count && sees[by] != NONE && !needed[sees[by]]) {
                    if (writer[sees[by]] == NONE) {
                        return Decision.violation("operation " + operations.number[by]
                                + " took effect on a value that nobody wrote");
                    }
                    needed[sees[by]] = true;
                    open[size++] = sees[by];
                }
            }
            return null;
        }

        private Decision build() {
            for (int op = 0; op < count; op++) {
                boolean happened = !operations.crashed(op) || writes[op] != NONE && needed[writes[op]];
                if (refuses[op] != NONE) {
                    refusals += happened ? 1 : 0;
                    continue;
                }
                if (!happened) {
                    continue;
                }
                if (writes[op] == NONE) {
                    blocks.observe(op, writer[sees[op]]);
                } else if (sees[op] == NONE) {
                    blocks.start(op);
                } else if (!blocks.follow(op, writer[sees[op]])) {
                    int other = blocks.next(writer[sees[op]]);
                    return Decision.violation("operations " + operations.number[other] + " and " + operations.number[op]
                            + " both replaced a value that was written once");
                }
            }
            return null;
        }

        /** Put the failed compare-and-sets into an order of the others. */
        private Decision withRefusals(int[] order) {
            int length = order.length;
            int[] value = new int[length + 1]; // by gap: gap i is before the op at i
            int[] latestCall = new int[length + 1];
            int[] earliestReturn = new int[length + 1];
            latestCall[0] = NONE;
            for (int i = 0; i < length; i++) {
                value[i + 1] = writes[order[i]] == NONE ? value[i] : writes[order[i]];
                latestCall[i + 1] = Math.max(latestCall[i], operations.call[order[i]]);
            }
            int[] leave = new int[length + 1]; // the first gap after it with another value
            earliestReturn[length] = Operations.NEVER;
            leave[length] = length + 1;
            for (int i = length - 1; i >= 0; i--) {
                earliestReturn[i] = Math.min(earliestReturn[i + 1], operations.ret[order[i]]);
                leave[i] = value[i] == value[i + 1] ? leave[i + 1] : i + 1;
            }
            long[] byReturn = new long[refusals];
            for (int op = 0, i = 0; op < count; op++) {
                if (refuses[op] != NONE && !operations.crashed(op)) {
                    byReturn[i++] = (long) operations.ret[op] << 32 | op;
                }
            }
            Arrays.sort(byReturn);
            long[] at = new long[refusals]; // gap and op
            int[] furthest = new int[refusals]; // gap among those so far
            for (int i = 0; i < refusals; i++) {
                int op = (int) byReturn[i];
                int before = lastBefore(byReturn, i, operations.call[op]);
                int gap = Math.max(firstAbove(earliestReturn, operations.call[op]), before < 0 ? 0 : furthest[before]);
                gap = value[gap] == refuses[op] ? leave[gap] : gap;
                if (gap > length || latestCall[gap] > operations.ret[op]) {
                    return spanned(op);
                }
                at[i] = (long) gap << 32 | op;
                furthest[i] = i == 0 ? gap : Math.max(furthest[i - 1], gap);
            }
            Arrays.sort(at);
            return Decision.linearizable(merge(order, at));
        }

        private static int[] merge(int[] order, long[] at) {
            int[] all = new int[order.length + at.length];
            int placed = 0;
            int next = 0;
            for (int gap = 0; gap <= order.length; gap++) {
                while (next < at.length && at[next] >>> 32 == gap) {
                    all[placed++] = (int) at[next++];
                }
                if (gap < order.length) {
                    all[placed++] = order[gap];
                }
            }
            return all;
        }

        /** The first index whose entry, in an ascending column, is above a bound. */
        private static int firstAbove(int[] column, int bound) {
            int low = 0;
            int high = column.length - 1;
            while (low < high) {
                int middle = (low + high) >>> 1;
                if (column[middle] > bound) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            return low;
        }

        private static int lastBefore(long[] byReturn, int size, int call) {
            int found = Arrays.binarySearch(byReturn, 0, size, (long) call << 32);
            return (found < 0 ? -found - 1 : found) - 1;
        }

        /**
         * A violation if the segment of the value that a failed compare-and-set did not find surely spans it, else
         * null.
         */
        private Decision spanned(int refusal) {
            int refused = refuses[refusal];
            if (writer[refused] == MANY) {
                return null;
            }
            boolean began = refused == 0;
            int after = NONE;
            for (int op = 0; op < count; op++) {
                boolean happened = !operations.crashed(op) || writes[op] != NONE && needed[writes[op]];
                if (happened && (sees[op] == refused || writes[op] == refused)) {
                    began |= operations.ret[op] < operations.call[refusal];
                    after = operations.call[op] > operations.ret[refusal] ? op : after;
                }
            }
            return began && after != NONE
                    ? Decision.violation("operation " + operations.number[refusal]
                            + " did not see the value that was there before "
                            + "it and, as operation " + operations.number[after] + " shows, after it")
                    : null;
        }
    }
}
