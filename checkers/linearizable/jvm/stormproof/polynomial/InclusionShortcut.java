package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Model;
import stormproof.model.Operations;
import stormproof.util.Budget;
import stormproof.util.LongInterner;

/**
 * A set that only grows, read as a whole: what the reads show must grow, too. O(n log n) and the elements shown. Exact,
 * unless an operation told whether an element was there.
 *
 * <p>The reads are ordered by size; each must show what the one before it does. That fixes in which of their {@link
 * Slots} an element comes: before the first read that shows it. Each add stands in that slot or later, one at least in
 * it. Going by calls, each add takes the first slot that this, real time with the reads and the adds that returned
 * before it allow; every linearization has it there or later, so that it is a violation if the slot is past what its
 * return allows, or if no add of an element comes in time. A crashed add is used only for an element that was shown and
 * that no completed add brings in time; what it takes from nobody is time, as nothing was called after its return.
 */
final class InclusionShortcut extends Polynomial {
    private static final int NONE = -1;

    InclusionShortcut(Model model) {
        super("inclusion", model);
    }

    @Override
    Decision attempt(Operations operations, long[] init, String[] values, Budget budget) {
        LongInterner elements = new LongInterner();
        for (long element : init) {
            elements.place(element);
        }
        int initial = elements.size();
        int readCount = 0;
        for (int op = 0; op < operations.count; op++) {
            long[] arguments = operations.argumentsOf(op);
            switch (operations.functionOf(op)) {
                case Function.READ -> readCount += operations.crashed(op) ? 0 : 1;
                case Function.ADD -> {
                    if (arguments[1] != Function.UNKNOWN) {
                        return null;
                    }
                    elements.place(arguments[0]);
                }
                default -> {
                    return null;
                }
            }
        }
        long[] sorted = new long[readCount];
        for (int op = 0, i = 0; op < operations.count; op++) {
            if (operations.functionOf(op) == Function.READ && !operations.crashed(op)) {
                sorted[i++] = (long) operations.argumentsOf(op).length << 32 | op;
            }
        }
        Arrays.sort(sorted);
        Slots slots = new Slots(operations, Arrays.stream(sorted).mapToInt(read -> (int) read).toArray());
        int[] shown = new int[elements.size()]; // by element: the first read that shows it
        Arrays.fill(shown, slots.reads.length);
        Decision wrong = chain(operations, slots, elements, initial, shown);
        return wrong != null ? wrong : place(operations, slots, elements, initial, shown);
    }

    private static Decision chain(
            Operations operations, Slots slots, LongInterner elements, int initial, int[] shown) {
        int size = initial;
        int previous = NONE;
        Arrays.fill(shown, 0, initial, 0);
        for (int i = 0; i < slots.reads.length; i++) {
            int read = slots.reads[i];
            long[] members = operations.argumentsOf(read);
            if (previous != NONE && operations.kind[previous] == operations.kind[read]) {
                continue;
            }
            int known = 0;
            for (long member : members) {
                int element = elements.find(member);
                if (element == LongInterner.ABSENT) {
                    return Decision.violation(
                            "operation " + operations.number[read] + " shows an element that nobody added", read);
                }
                known += shown[element] < i || element < initial ? 1 : 0;
                shown[element] = Math.min(shown[element], i);
            }
            if (known != size) {
                String shows = previous == NONE
                        ? "was there at first"
                        : "operation " + operations.number[previous] + " does";
                return Decision.violation("operation " + operations.number[read] + " does not show all that " + shows
                        + ", though it shows as much");
            }
            size = members.length;
            previous = read;
        }
        return slots.misplaced() == NONE
                ? null
                : Decision.violation("operation " + operations.number[slots.misplaced()]
                        + " shows less than a read that had returned before it");
    }

    private static Decision place(
            Operations operations, Slots slots, LongInterner elements, int initial, int[] shown) {
        int[] slot = new int[operations.count];
        Arrays.fill(slot, NONE);
        boolean[] brought = new boolean[shown.length];
        Arrays.fill(brought, 0, initial, true);
        long[] returns = new long[operations.count];
        int count = 0;
        for (int op = 0; op < operations.count; op++) {
            if (operations.functionOf(op) == Function.ADD && !operations.crashed(op)) {
                returns[count++] = (long) operations.ret[op] << 32 | op;
            }
        }
        Arrays.sort(returns, 0, count);
        int least = 0; // the last slot among the adds that had returned
        for (int op = 0, next = 0; op < operations.count; op++) {
            for (; next < count && returns[next] >>> 32 < operations.call[op]; next++) {
                least = Math.max(least, slot[(int) returns[next]]);
            }
            if (operations.functionOf(op) != Function.ADD) {
                continue;
            }
            int element = elements.find(operations.argumentsOf(op)[0]);
            int first = Math.max(shown[element], Math.max(least, slots.earliest(op)));
            boolean useful = !brought[element] && first == shown[element] && first < slots.reads.length;
            if (operations.crashed(op) && !useful) {
                continue;
            }
            if (first > slots.latest(op)) {
                return Decision.violation("operation " + operations.number[op] + " added an element that operation "
                        + operations.number[slots.reads[first - 1]]
                        + " does not show, or shows too early for another one");
            }
            slot[op] = first;
            brought[element] |= first == shown[element];
        }
        for (int element = 0; element < shown.length; element++) {
            if (!brought[element] && shown[element] < slots.reads.length) {
                return Decision.violation("operation " + operations.number[slots.reads[shown[element]]]
                        + " shows an element before any add of it can have come");
            }
        }
        return Decision.linearizable(slots.order(slot));
    }
}
