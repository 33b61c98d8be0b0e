package stormproof.search;

import java.util.Arrays;
import stormproof.model.Operations;
import stormproof.util.Budget;
import stormproof.util.IntList;

/**
 * The order of time as the searches use it. Completed ops have a <em>rank</em>, their place in the order of returns. A
 * search stands at a <em>level</em>: the lowest rank not yet linearized. At that level exactly the ops called before
 * the level's return may come next, since an op called after it follows it in real time; so the linearized ops above
 * the level are among those open at that return, and one <em>slot</em> for each op open at a time tells which they are.
 *
 * <p>Crashed ops never return and so are outside of this. Those of one kind are interchangeable: whichever is used, the
 * earliest called that is left may be used in its place, as it may take effect at any time from its call on. A count
 * for each kind with crashed ops (a <em>class</em>) therefore replaces their bits.
 */
final class Window {
    final int returns;
    /** By rank. */
    final int[] byReturn;
    /** By op; -1 for crashed ones. */
    final int[] rank;
    final int[] slot;
    final int slots;

    final int classes;
    /** By class, in the order of their first calls. */
    final int[] classKind;
    final int[] classStart;
    /** The crashed ops, class by class, in the order of their calls; class c has those from classStart[c] on. */
    final int[] crashedOps;

    private final Operations operations;
    /** The ops open at each level, in the order of their returns; level l has those from openStart[l] on. */
    private final IntList open;
    private final int[] openStart;
    private int built;
    private int nextCall;

    Window(Operations operations, Budget budget) {
        this.operations = operations;
        int n = operations.count;
        open = new IntList(budget);
        rank = new int[n];
        slot = new int[n];
        long[] order = new long[n];
        int completed = 0;
        for (int op = 0; op < n; op++) {
            rank[op] = -1;
            if (!operations.crashed(op)) {
                order[completed++] = (long) operations.ret[op] << 32 | op;
            }
        }
        Arrays.sort(order, 0, completed);
        returns = completed;
        byReturn = new int[completed];
        for (int r = 0; r < completed; r++) {
            byReturn[r] = (int) order[r];
            rank[byReturn[r]] = r;
        }
        slots = giveSlots();
        openStart = new int[completed + 1];

        int[] classOf = new int[operations.kinds];
        int[] kindOf = new int[Math.min(operations.kinds, n - completed)];
        classes = findClasses(classOf, kindOf);
        classKind = Arrays.copyOf(kindOf, classes);
        classStart = new int[classes + 1];
        crashedOps = new int[n - completed];
        sortCrashed(classOf);
    }

    /** About how much memory the fixed part takes. */
    static long bytes(Operations operations) {
        return 40L * operations.count + 4L * operations.kinds + 256;
    }

    private int giveSlots() {
        int[] free = new int[returns];
        int freeCount = 0;
        int most = 0;
        int nextReturn = 0;
        for (int op = 0; op < rank.length; op++) {
            if (rank[op] < 0) {
                continue;
            }
            while (operations.ret[byReturn[nextReturn]] < operations.call[op]) {
                free[freeCount++] = slot[byReturn[nextReturn++]];
            }
            slot[op] = freeCount > 0 ? free[--freeCount] : most++;
        }
        return most;
    }

    private int findClasses(int[] classOf, int[] kindOf) {
        Arrays.fill(classOf, -1);
        int found = 0;
        for (int op = 0; op < rank.length; op++) {
            int kind = operations.kind[op];
            if (rank[op] < 0 && classOf[kind] < 0) {
                classOf[kind] = found;
                kindOf[found++] = kind;
            }
        }
        return found;
    }

    private void sortCrashed(int[] classOf) {
        for (int op = 0; op < rank.length; op++) {
            if (rank[op] < 0) {
                classStart[classOf[operations.kind[op]] + 1]++;
            }
        }
        for (int c = 0; c < classes; c++) {
            classStart[c + 1] += classStart[c];
        }
        int[] at = Arrays.copyOf(classStart, classes);
        for (int op = 0; op < rank.length; op++) {
            if (rank[op] < 0) {
                crashedOps[at[classOf[operations.kind[op]]]++] = op;
            }
        }
    }

    int crashedCount(int cls) {
        return classStart[cls + 1] - classStart[cls];
    }

    /** The crashed op to use next when so many of the class were used; -1 when none is left or called by then. */
    int crashedOp(int cls, int used, int level) {
        int at = classStart[cls] + used;
        if (at >= classStart[cls + 1]) {
            return -1;
        }
        int op = crashedOps[at];
        return operations.call[op] < operations.ret[byReturn[level]] ? op : -1;
    }

    /** Whether any op of the class was called before the level's return. */
    boolean called(int cls, int level) {
        return operations.call[crashedOps[classStart[cls]]] < operations.ret[byReturn[level]];
    }

    int from(int level) {
        while (built <= level && !open.refused) {
            build(built++);
        }
        return openStart[level];
    }

    /** Call {@link #from} first. */
    int to(int level) {
        return openStart[level + 1];
    }

    int openOp(int at) {
        return open.items[at];
    }

    boolean refused() {
        return open.refused;
    }

    /** What is open at a level: what was open before without the op that returned, and the calls since. */
    private void build(int level) {
        int start = open.size;
        if (level > 0) {
            for (int i = openStart[level - 1] + 1; i < start; i++) {
                open.add(open.items[i]);
            }
        }
        int until = operations.ret[byReturn[level]];
        while (nextCall < rank.length && operations.call[nextCall] < until) {
            int op = nextCall++;
            if (rank[op] >= 0) {
                insert(op, start);
            }
        }
        openStart[level + 1] = open.size;
    }

    private void insert(int op, int start) {
        open.add(op);
        if (open.refused) {
            return;
        }
        int at = open.size - 1;
        while (at > start && rank[open.items[at - 1]] > rank[op]) {
            open.items[at] = open.items[at - 1];
            at--;
        }
        open.items[at] = op;
    }

    void close() {
        open.close();
    }
}
