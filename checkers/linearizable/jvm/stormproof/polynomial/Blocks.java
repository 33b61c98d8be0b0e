package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Operations;

/**
 * Operations on one object whose place relative to a write is known, because each write that matters can be told from
 * every other one: all operations that see a write stand between it and the next.
 *
 * <p>A <em>segment</em> is a write with its observers. Where a write is known to come directly after another segment (a
 * compare-and-set, an append), the segments join into a <em>block</em>: no other write can stand inside, so that a
 * linearization is a sequence of whole blocks. With f the first return and s the last call in a block, block A must
 * come before B exactly if f(A) &lt; s(B). These demands can be met if and only if no two of them contradict each
 * other, that is (Gibbons and Korach, Testing shared memories, 1997; Golab, Li and Shah, PODC 2011): no two <em>forward
 * zones</em> [f, s] (f &lt; s) overlap, and no <em>backward zone</em> [s, f] lies within a forward one. For then each
 * forward block takes place inside its zone and each backward block at one moment of its zone outside all forward ones,
 * which all of its operations span. Inside a block the operations stand by segment, the write first, which can be met
 * if and only if no operation was called after one of a later place had returned. O(n log n).
 */
final class Blocks {
    private static final int NONE = -1;

    private final Operations operations;
    /** The segment that was there before any operation. */
    final int initial;
    private final int[] segment; // by op: the one it writes or observes
    private final boolean[] observer;
    private final int[] next; // by segment: the one that follows in its block
    private final int[] previous;
    private final int[] block; // by segment
    private final int[] place; // by segment: within its block
    private int blocks;

    // By block, after zones().
    private int[] first; // where its members begin
    private int[] members; // ops by block, place and call
    private int[] firstReturn;
    private int[] lastCall;

    Blocks(Operations operations) {
        this.operations = operations;
        initial = operations.count;
        segment = filled(operations.count);
        observer = new boolean[operations.count];
        next = filled(operations.count + 1);
        previous = filled(operations.count + 1);
        block = filled(operations.count + 1);
        place = filled(operations.count + 1);
        start(initial);
    }

    private static int[] filled(int length) {
        int[] all = new int[length];
        Arrays.fill(all, NONE);
        return all;
    }

    /** This op's write begins a block. */
    void start(int op) {
        block[op] = blocks++;
        place[op] = 0;
        if (op != initial) {
            segment[op] = op;
        }
    }

    /**
     * This op's write comes directly after that segment; false when another one does, or it comes after another one.
     */
    boolean follow(int op, int before) {
        if (next[before] != NONE && next[before] != op || previous[op] != NONE && previous[op] != before) {
            return false;
        }
        next[before] = op;
        previous[op] = before;
        segment[op] = op;
        return true;
    }

    /** This op sees the write of that segment. */
    void observe(int op, int seen) {
        segment[op] = seen;
        observer[op] = true;
    }

    /** The segment that directly follows, -1: none is known. */
    int next(int of) {
        return next[of];
    }

    /** Decide; ops that were never named are left out of the order. */
    Decision decide() {
        for (int start = 0; start <= initial; start++) {
            if (place[start] == 0) {
                for (int at = next[start], index = 1; at != NONE; at = next[at]) {
                    block[at] = block[start];
                    place[at] = index++;
                }
            }
        }
        for (int op = 0; op < initial; op++) {
            if (segment[op] == op && block[op] == NONE) {
                return Decision.violation("operation " + number(op) + " could only follow what itself led to");
            }
        }
        zones();
        Decision inside = contradictionInside();
        return inside != null ? inside : sequence();
    }

    private void zones() {
        first = new int[blocks + 1];
        firstReturn = new int[blocks];
        lastCall = new int[blocks];
        Arrays.fill(firstReturn, Operations.NEVER);
        Arrays.fill(lastCall, -2);
        firstReturn[block[initial]] = -1;
        int named = 0;
        long[] sorted = new long[initial];
        for (int op = 0; op < initial; op++) {
            if (segment[op] != NONE) {
                int of = block[segment[op]];
                first[of + 1]++;
                firstReturn[of] = Math.min(firstReturn[of], operations.ret[op]);
                lastCall[of] = Math.max(lastCall[of], operations.call[op]);
                sorted[named++] = rank(op) << 32 | op;
            }
        }
        Arrays.sort(sorted, 0, named);
        for (int i = 0; i < blocks; i++) {
            first[i + 1] += first[i];
        }
        members = new int[named];
        int[] end = first.clone();
        for (int i = 0; i < named; i++) {
            int op = (int) sorted[i];
            members[end[block[segment[op]]]++] = op;
        }
    }

    private long rank(int op) {
        return 2L * place[segment[op]] + (observer[op] ? 1 : 0);
    }

    private Decision contradictionInside() {
        for (int of = 0; of < blocks; of++) {
            int earliest = NONE; // the op of a later rank that returned first
            int candidate = NONE; // the same for the present rank
            for (int i = first[of + 1] - 1; i >= first[of]; i--) {
                int op = members[i];
                if (i + 1 < first[of + 1] && rank(members[i + 1]) != rank(op)) {
                    earliest = earlier(earliest, candidate);
                    candidate = NONE;
                }
                candidate = earlier(candidate, op);
                if (earliest != NONE && operations.ret[earliest] < operations.call[op]) {
                    return Decision.violation(
                            "operation " + number(op) + " was called when operation " + number(earliest)
                                    + ", which must come after it, had returned",
                            chain(of, op, earliest));
                }
            }
        }
        return null;
    }

    private int earlier(int a, int b) {
        return b == NONE || a != NONE && operations.ret[a] <= operations.ret[b] ? a : b;
    }

    private Decision sequence() {
        long[] forward = new long[blocks];
        int count = 0;
        for (int of = 0; of < blocks; of++) {
            if (firstReturn[of] < lastCall[of]) {
                forward[count++] = (firstReturn[of] + 1L) << 32 | of;
            }
        }
        Arrays.sort(forward, 0, count);
        for (int i = 1; i < count; i++) {
            if (firstReturn[(int) forward[i]] < lastCall[(int) forward[i - 1]]) {
                return contradiction((int) forward[i - 1], (int) forward[i]);
            }
        }
        long[] moment = new long[blocks]; // twice the position, + 1 for just after it; and the block
        for (int of = 0; of < blocks; of++) {
            long at = 2L * (Math.min(firstReturn[of], lastCall[of]) + 2);
            if (firstReturn[of] >= lastCall[of]) {
                int around = lastBefore(forward, count, lastCall[of]);
                if (around != NONE && lastCall[of] < lastCall[around]) {
                    if (firstReturn[of] < lastCall[around]) {
                        return contradiction(around, of);
                    }
                    at = 2L * (lastCall[around] + 2) + 1;
                }
            }
            moment[of] = at << 31 | of;
        }
        Arrays.sort(moment);
        int[] order = new int[members.length];
        int placed = 0;
        for (long next : moment) {
            int of = (int) (next & Integer.MAX_VALUE);
            int length = first[of + 1] - first[of];
            System.arraycopy(members, first[of], order, placed, length);
            placed += length;
        }
        return Decision.linearizable(order);
    }

    /** The forward zone that begins last before a position. */
    private int lastBefore(long[] forward, int count, int position) {
        int low = Arrays.binarySearch(forward, 0, count, (position + 1L) << 32);
        int index = (low < 0 ? -low - 1 : low) - 1;
        return index < 0 ? NONE : (int) forward[index];
    }

    private Decision contradiction(int one, int other) {
        int[] culprits = union(extent(one), extent(other));
        return Decision.violation(
                "what " + naming(one) + " wrote was in force both before and after what " + naming(other) + " wrote",
                culprits);
    }

    private String naming(int of) {
        return of == block[initial] ? "nobody" : "operation " + number(members[first[of]]);
    }

    private int[] extent(int of) {
        int earliest = NONE;
        int latest = NONE;
        for (int i = first[of]; i < first[of + 1]; i++) {
            int op = members[i];
            earliest = operations.ret[op] == firstReturn[of] ? op : earliest;
            latest = operations.call[op] == lastCall[of] ? op : latest;
        }
        return chain(of, earliest, latest);
    }

    /**
     * These two ops of a block and the proof that they stand in it: the completed op of the last place, and all writes
     * up to there.
     */
    private int[] chain(int of, int one, int other) {
        int last = first[of + 1] - 1;
        while (last > first[of] && operations.crashed(members[last])) {
            last--;
        }
        boolean[] in = new boolean[initial];
        for (int i = first[of]; i <= last; i++) {
            in[members[i]] = !observer[members[i]];
        }
        in[members[last]] = true;
        for (int op : new int[] {one, other}) {
            if (op != NONE) {
                in[op] = true;
            }
        }
        return positions(in);
    }

    static int[] positions(boolean[] in) {
        int[] all = new int[in.length];
        int count = 0;
        for (int i = 0; i < in.length; i++) {
            if (in[i]) {
                all[count++] = i;
            }
        }
        return Arrays.copyOf(all, count);
    }

    private static int[] union(int[] one, int[] other) {
        int[] all = Arrays.copyOf(one, one.length + other.length);
        System.arraycopy(other, 0, all, one.length, other.length);
        Arrays.sort(all);
        return all;
    }

    private int number(int op) {
        return operations.number[op];
    }
}
