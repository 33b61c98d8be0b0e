package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Operations;
import stormproof.util.Budget;

/**
 * A value that could not be there any more, or not yet: necessary for any register, whatever was written how often. O(n
 * log n); knows violations only.
 *
 * <p>Let an op find v, and let T be the latest call among the writes that had returned when it was called. A write
 * of v explains it only if called before the op returned, and if it had not returned before T: else a write that was
 * called after it and is over as well stands between them. The first state explains it only if no write was over. (An
 * op that compares and sets is none of its own explanations, since it leaves another value than it finds.)
 */
final class StaleShortcut implements Shortcut {
    private static final long BYTES_PER_OPERATION = 64;

    private final RegisterView.Maker maker;

    StaleShortcut(RegisterView.Maker maker) {
        this.maker = maker;
    }

    @Override
    public String name() {
        return "stale-value";
    }

    @Override
    public Decision decide(Operations operations, long[] init, String[] values, Budget budget) {
        long bytes = BYTES_PER_OPERATION * (operations.count + 1L);
        if (!budget.take(bytes)) {
            return null;
        }
        try {
            RegisterView view = maker.view(operations, init, values);
            return view == null ? null : violation(view);
        } finally {
            budget.giveBack(bytes);
        }
    }

    private static Decision violation(RegisterView view) {
        Operations operations = view.operations;
        long[] byReturn = new long[operations.count];
        int[] first = new int[view.values + 1]; // of each value in writers
        int writes = 0;
        for (int op = 0; op < operations.count; op++) {
            if (view.writes[op] != RegisterView.NONE) {
                first[view.writes[op] + 1]++;
                if (!operations.crashed(op)) {
                    byReturn[writes++] = (long) operations.ret[op] << 32 | op;
                }
            }
        }
        Arrays.sort(byReturn, 0, writes);
        int[] latest = new int[writes]; // the write called last among those that returned first
        for (int i = 0; i < writes; i++) {
            int op = (int) byReturn[i];
            latest[i] = i == 0 || operations.call[op] > operations.call[latest[i - 1]] ? op : latest[i - 1];
        }
        for (int value = 0; value < view.values; value++) {
            first[value + 1] += first[value];
        }
        int[] writers = new int[first[view.values]]; // by value and call
        int[] end = first.clone();
        for (int op = 0; op < operations.count; op++) {
            if (view.writes[op] != RegisterView.NONE) {
                writers[end[view.writes[op]]++] = op;
            }
        }
        // The latest return among the writers of a value so far.
        int[] open = new int[writers.length];
        for (int value = 0; value < view.values; value++) {
            for (int i = first[value]; i < first[value + 1]; i++) {
                int ret = operations.ret[writers[i]];
                open[i] = i == first[value] ? ret : Math.max(ret, open[i - 1]);
            }
        }
        for (int op = 0; op < operations.count; op++) {
            if (view.sees[op] == RegisterView.NONE || operations.crashed(op)) {
                continue;
            }
            int value = view.sees[op];
            int over = before(byReturn, writes, operations.call[op]);
            int overwriter = over < 0 ? RegisterView.NONE : latest[over];
            int candidates = called(operations, writers, first[value], first[value + 1], operations.ret[op]);
            boolean initial = value == 0 && overwriter == RegisterView.NONE;
            boolean written = candidates > first[value]
                    && (overwriter == RegisterView.NONE || open[candidates - 1] > operations.call[overwriter]);
            if (!initial && !written) {
                return stale(operations, op, overwriter, Arrays.copyOfRange(writers, first[value], candidates),
                        value == 0);
            }
        }
        return null;
    }

    private static Decision stale(Operations operations, int op, int overwriter, int[] writers, boolean initial) {
        int number = operations.number[op];
        if (writers.length == 0 && !initial) {
            return Decision.violation("operation " + number + " found a value that nobody had written by then", op);
        }
        int[] culprits = Arrays.copyOf(writers, writers.length + 2);
        culprits[writers.length] = op;
        culprits[writers.length + 1] = overwriter;
        return Decision.violation(
                "operation " + number + " found a value that operation " + operations.number[overwriter]
                        + " had overwritten by then",
                culprits);
    }

    /** The last of the writes that returned before a position. */
    private static int before(long[] byReturn, int size, int position) {
        int found = Arrays.binarySearch(byReturn, 0, size, (long) position << 32);
        return (found < 0 ? -found - 1 : found) - 1;
    }

    /** The end of those writers in a range that were called before a position. */
    private static int called(Operations operations, int[] writers, int from, int to, int position) {
        int low = from;
        int high = to;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (operations.call[writers[middle]] < position) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
}
