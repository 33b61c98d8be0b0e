package stormproof;

import java.util.Arrays;

/**
 * Makes a violation small enough to read: delta debugging (Zeller and Hildebrandt 2002) over whole operations.
 *
 * <p>To leave operations out one by one would soon tell a lie: without the write of 1, the stale read of 1 is "a read of a
 * value that was never written". So an operation that is taken away is not forgotten, it only loses its promises: it may
 * have happened at any time after its call, or never. What remains, the <em>core</em>, contradicts itself whatever all the
 * others did; hence it is illegal alone as well. The more is taken away the more is allowed, so one pass that ends with
 * single operations leaves a core from which nothing more can be taken.
 *
 * <p>At last those of the others come back that the core needs to be understood: for each operation of the core, the rest
 * of it is linearizable, and what this linearization uses besides the core belongs to the story (a write that crashed, but
 * was read). They make nothing legal, so the whole is still illegal alone.
 */
final class Minimize {
    private static final long STEPS = 4_000;
    private static final long PATIENT_STEPS = 100_000;
    private static final int LONGEST_STORY = 64; // operations of the core

    private final Operations all;
    private final int blocked;
    private final int[] culprits;
    private final Referee referee;
    private boolean[] core;
    private boolean doubtful;

    /**
     * @param blocked the op up to whose return, and not before, the partition is not linearizable
     * @param culprits see {@link Decision#culprits}; may be empty
     */
    Minimize(Operations all, int blocked, int[] culprits, Referee referee) {
        this.all = all;
        this.blocked = blocked;
        this.culprits = culprits;
        this.referee = referee;
        this.core = new boolean[all.count];
        for (int op = 0; op < all.count; op++) {
            core[op] = all.ret[op] <= all.ret[blocked]; // crashed ones never return
        }
    }

    /** Ops of a small sub-history that is not linearizable, in the order of their calls. */
    int[] run() {
        boolean[] suspects = new boolean[all.count];
        boolean early = culprits.length > 0;
        for (int op : culprits) {
            suspects[op] = true;
            early &= all.crashed(op) || core[op];
        }
        if (early && forbidden(suspects, PATIENT_STEPS)) {
            core = suspects;
        }
        shrink(STEPS);
        if (doubtful && !referee.timeIsUp()) {
            doubtful = false;
            shrink(PATIENT_STEPS);
        }
        if (doubtful && culprits.length > 0 && culprits.length < count(core)) {
            return ops(suspects); // illegal alone, says the shortcut
        }
        return ops(story());
    }

    private void shrink(long steps) {
        int[] candidates = candidates();
        for (int size = Math.max(1, candidates.length / 2); candidates.length > 0; size = Math.max(1, size / 2)) {
            int left = 0;
            for (int from = 0; from < candidates.length; from += size) {
                int to = Math.min(candidates.length, from + size);
                boolean[] less = core.clone();
                for (int i = from; i < to; i++) {
                    less[candidates[i]] = false;
                }
                if (forbidden(less, steps)) {
                    core = less;
                } else {
                    System.arraycopy(candidates, from, candidates, left, to - from);
                    left += to - from;
                }
            }
            candidates = Arrays.copyOf(candidates, left);
            if (size == 1) {
                return;
            }
        }
    }

    /** The core without the blocked op, which is always part of it: observers first, since a story lives on changes. */
    private int[] candidates() {
        int[] candidates = new int[all.count];
        int count = 0;
        for (boolean observers : new boolean[] {true, false}) {
            for (int op = 0; op < all.count; op++) {
                if (core[op] && op != blocked && Function.observes(all.functionOf(op)) == observers) {
                    candidates[count++] = op;
                }
            }
        }
        return Arrays.copyOf(candidates, count);
    }

    private boolean forbidden(boolean[] kept, long steps) {
        Decision decision = referee.timeIsUp() ? null : referee.judge(Excerpt.loosened(all, kept), steps);
        doubtful |= decision == null;
        return decision != null && !decision.valid();
    }

    private boolean[] story() {
        boolean[] story = core.clone();
        if (count(core) > LONGEST_STORY) {
            return story;
        }
        for (int op = 0; op < all.count && !referee.timeIsUp(); op++) {
            if (!core[op]) {
                continue;
            }
            boolean[] rest = core.clone();
            rest[op] = false;
            Operations loosened = Excerpt.loosened(all, rest);
            Decision decision = referee.judge(loosened, STEPS);
            if (decision != null && decision.valid()) {
                for (int used : decision.order()) {
                    story[Arrays.binarySearch(all.number, loosened.number[used])] = true;
                }
            }
        }
        return story;
    }

    private static int count(boolean[] set) {
        int count = 0;
        for (boolean member : set) {
            count += member ? 1 : 0;
        }
        return count;
    }

    private static int[] ops(boolean[] set) {
        int[] ops = new int[count(set)];
        int next = 0;
        for (int op = 0; op < set.length; op++) {
            if (set[op]) {
                ops[next++] = op;
            }
        }
        return ops;
    }
}
