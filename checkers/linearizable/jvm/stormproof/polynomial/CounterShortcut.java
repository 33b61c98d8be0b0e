package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.util.Budget;
import stormproof.util.LongHeap;

/**
 * A counter. Two algorithms, both O(n log n).
 *
 * <p><em>Bounds</em>, necessary for any amounts: a read lies between the least and the most that the adds can have made
 * by then; those that had returned when it was called count, those that were called before it returned may count.
 *
 * <p><em>Equal amounts</em>, exact: the value tells how many adds came before a read, hence the order of the reads
 * (equal ones see no add between them) and how many adds stand in each of their {@link Slots}. Adds are equal but for
 * the slots that real time allows them, a range each: to fill each slot from those that may stand there with the one
 * whose range ends first is optimal (Glover, Maximum matching in a convex bipartite graph, 1967). Two adds of which one
 * returned before the other was called come out in their order, since both ends of the first range are no later.
 */
final class CounterShortcut extends Polynomial {
    private static final int NONE = -1;

    CounterShortcut(Model model) {
        super("counting", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        long first = init.length == 0 ? 0 : init[0];
        Decision outside = bounds(operations, first);
        if (outside != null) {
            return outside;
        }
        long amount = 0;
        int reads = 0;
        for (int op = 0; op < operations.count; op++) {
            if (operations.functionOf(op) == Function.READ) {
                reads += operations.crashed(op) ? 0 : 1;
                continue;
            }
            long adds = operations.argumentsOf(op)[0];
            if (adds == 0 || amount != 0 && adds != amount) {
                return null;
            }
            amount = adds;
        }
        return equal(operations, first, amount == 0 ? 1 : amount, reads);
    }

    private static Decision bounds(Operations operations, long first) {
        long[] returns = new long[operations.count];
        int[] reads = new int[operations.count];
        int count = 0;
        int readCount = 0;
        for (int op = 0; op < operations.count; op++) {
            if (!operations.crashed(op)) {
                returns[count++] = (long) operations.ret[op] << 32 | op;
            }
        }
        Arrays.sort(returns, 0, count);
        // What the adds that had returned by the call of an op come to: all, and the negative ones.
        long[] sure = new long[operations.count];
        long[] sureNegative = new long[operations.count];
        long all = 0;
        long negative = 0;
        for (int op = 0, next = 0; op < operations.count; op++) {
            for (; next < count && returns[next] >>> 32 < operations.call[op]; next++) {
                long amount = amount(operations, (int) returns[next]);
                all += amount;
                negative += Math.min(amount, 0);
            }
            sure[op] = all;
            sureNegative[op] = negative;
        }
        all = 0;
        negative = 0;
        for (int i = 0, next = 0; i < count; i++) {
            int op = (int) returns[i];
            for (; next < operations.count && operations.call[next] < operations.ret[op]; next++) {
                long amount = amount(operations, next);
                all += amount;
                negative += Math.min(amount, 0);
            }
            if (operations.functionOf(op) == Function.READ) {
                long value = operations.argumentsOf(op)[0];
                long least = first + sure[op] + negative - sureNegative[op];
                long most = first + sure[op] + (all - negative) - (sure[op] - sureNegative[op]);
                if (value < least || value > most) {
                    return Decision.violation("operation " + operations.number[op] + " read " + value
                            + ", but the counter was between "
                            + least + " and " + most);
                }
            }
        }
        return null;
    }

    private static long amount(Operations operations, int op) {
        return operations.functionOf(op) == Function.ADD ? operations.argumentsOf(op)[0] : 0;
    }

    private static Decision equal(Operations operations, long first, long amount, int readCount) {
        long[] sorted = new long[readCount];
        for (int op = 0, i = 0; op < operations.count; op++) {
            if (operations.functionOf(op) == Function.READ && !operations.crashed(op)) {
                long steps = (operations.argumentsOf(op)[0] - first) / amount;
                if (steps < 0 || steps > operations.count || first + steps * amount != operations.argumentsOf(op)[0]) {
                    return Decision.violation(
                            "operation " + operations.number[op] + " read what no number of adds leads to");
                }
                sorted[i++] = steps << 32 | op;
            }
        }
        Arrays.sort(sorted);
        Slots slots = new Slots(operations, Arrays.stream(sorted).mapToInt(read -> (int) read).toArray());
        if (slots.misplaced() != NONE) {
            return Decision.violation("operation " + operations.number[slots.misplaced()]
                    + " read fewer adds than a read that had returned before it");
        }
        return fill(operations, slots, sorted);
    }

    private static Decision fill(Operations operations, Slots slots, long[] sorted) {
        long[] byEarliest = new long[operations.count];
        int adds = 0;
        for (int op = 0; op < operations.count; op++) {
            if (operations.functionOf(op) == Function.ADD) {
                byEarliest[adds++] = (long) slots.earliest(op) << 32 | op;
            }
        }
        Arrays.sort(byEarliest, 0, adds);
        int[] slot = new int[operations.count];
        Arrays.fill(slot, NONE);
        LongHeap open = new LongHeap(); // adds by the last slot they may stand in
        int next = 0;
        long before = 0;
        for (int i = 0; i < sorted.length; i++) {
            for (; next < adds && byEarliest[next] >>> 32 <= i; next++) {
                int op = (int) byEarliest[next];
                open.add((long) slots.latest(op) << 32 | op);
            }
            for (; before < sorted[i] >>> 32; before++) {
                if (open.isEmpty()) {
                    return count(operations, slots.reads[i], "more");
                }
                slot[(int) open.poll()] = i;
            }
            if (!open.isEmpty() && open.peek() >>> 32 <= i) {
                return count(operations, slots.reads[i], "fewer");
            }
        }
        for (int op = 0; op < operations.count; op++) {
            if (operations.functionOf(op) == Function.ADD && slot[op] == NONE && !operations.crashed(op)) {
                slot[op] = sorted.length;
            }
        }
        return Decision.linearizable(slots.order(slot));
    }

    private static Decision count(Operations operations, int read, String than) {
        return Decision.violation("operation " + operations.number[read] + " read " + than
                + " adds than there can have been, given the other reads");
    }
}
