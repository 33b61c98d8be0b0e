package stormproof.explain;

import java.util.Arrays;
import stormproof.model.Decision;
import stormproof.model.Function;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.model.SubHistory;

/**
 * Makes a violation small enough to read: delta debugging (Zeller and Hildebrandt 2002) over whole operations.
 *
 * <p>To leave operations out one by one would soon tell a lie: without the write of 1, the stale read of 1 is "a read
 * of a value that was never written". So an operation that is taken away is not forgotten, it only loses its promise:
 * it took effect between its call and its return, or not at all ({@link PowersetModel}). What remains, the
 * <em>core</em>, contradicts itself whatever became of all the others; hence it is illegal alone as well. The more is
 * taken away the more is allowed, so a pass that ends with single operations leaves a core from which nothing more can
 * be taken.
 *
 * <p>At last those of the others come back that the core needs to be understood: for each operation of the core, the
 * rest of it is linearizable, and what this linearization uses besides the core belongs to the story (the write of the
 * value that was read when it was stale). They make nothing legal, so the whole is still illegal alone.
 *
 * <p>Where the choices get too many, the others may have happened at any time after their calls, or never, which allows
 * more and therefore keeps more, but is easier to search. Where all budgets end, the core is larger than it could be.
 * Where the core is longer than anybody would read (a lock acquired more often in all than it was released), see
 * {@link Mode}.
 */
final class Minimize {
    /** What becomes of operations that are taken away: the first way whose core is short enough counts. */
    private enum Mode {
        /** They are optional, as crashed ones are by nature. */
        OPTIONAL(0.5),
        /** They are optional, those that crashed are forgotten: one of these could have helped. */
        CRASHES_FORGOTTEN(0.4),
        /** They are forgotten. What is left is illegal alone, and without any of its operations it is not. */
        FORGOTTEN(0.8);

        /** Of the time and the steps that are left. */
        final double share;

        Mode(double share) {
            this.share = share;
        }
    }

    private static final long STEPS = 1_000;
    private static final long PATIENT_STEPS = 10_000;
    private static final int FIRST_RECENT = 8; // operations
    private static final int LONGEST_STORY = 24; // operations of the core
    private static final int LARGE = 200; // operations: where a shortcut named culprits, these are the story
    private static final int LONGEST_PATTERN = 64; // culprits
    private static final int MOST_LOOSE = 100; // operations; a search's first step is quadratic in their kinds
    private static final int MOST_ROUNDS = 10;

    private final Operations all;
    private final int until;
    private final int blocked;
    private final int[] culprits;
    private final BoundedChecker boundedChecker;
    private final States states;
    private boolean[] core;
    private Mode mode = Mode.OPTIONAL;
    private boolean doubtful;

    /**
     * @param blocked the op up to whose return, and not before, the partition is not linearizable
     * @param culprits see {@link Decision#culprits}; may be empty
     */
    Minimize(Operations all, int blocked, int[] culprits, BoundedChecker boundedChecker) {
        this.all = all;
        this.blocked = blocked;
        this.until = all.ret[blocked] + 1;
        this.culprits = culprits;
        this.boundedChecker = boundedChecker;
        this.states = boundedChecker.states(all);
        this.core = new boolean[all.count];
        for (int op = 0; op < all.count; op++) {
            core[op] = all.ret[op] < until; // crashed ones never return
        }
    }

    /** Ops of a small sub-history that is not linearizable, in the order of their calls. */
    int[] run() {
        if (count(core) > LARGE && culprits.length > 0 && culprits.length <= LONGEST_PATTERN) {
            Decision alone = boundedChecker.judge(SubHistory.only(all, suspects()), STEPS);
            if (alone != null && !alone.valid()) {
                return ops(suspects());
            }
        }
        for (Mode next : Mode.values()) {
            mode = next;
            boundedChecker.phase(mode.share);
            startSmall();
            if (shrink() && count(core) <= LONGEST_STORY) {
                break;
            }
        }
        boundedChecker.phase(1);
        if (culprits.length > 0 && culprits.length < count(core) && count(core) > LONGEST_STORY) {
            return ops(suspects()); // illegal alone, says the shortcut
        }
        return ops(mode == Mode.FORGOTTEN ? core : story());
    }

    /** Begin with the culprits if these are enough, else with the operations that returned last. */
    private void startSmall() {
        boolean early = culprits.length > 0;
        for (int op : culprits) {
            early &= all.crashed(op) || core[op];
        }
        if (early && culprits.length < count(core)) {
            boolean[] suspects = suspects();
            if (forbidden(suspects, STEPS)) {
                core = suspects;
                return;
            }
        }
        int candidates = count(core);
        for (int size = FIRST_RECENT; 2 * size < candidates; size *= 4) {
            boolean[] recent = recent(size);
            if (forbidden(recent, STEPS)) {
                core = recent;
                return;
            }
        }
    }

    private boolean[] suspects() {
        boolean[] suspects = new boolean[all.count];
        for (int op : culprits) {
            suspects[op] = true;
        }
        return suspects;
    }

    /** So many of the core that returned last; the blocked op is the last of all. */
    private boolean[] recent(int size) {
        int[] returns = new int[all.count];
        int count = 0;
        for (int op = 0; op < all.count; op++) {
            if (core[op]) {
                returns[count++] = all.ret[op];
            }
        }
        Arrays.sort(returns, 0, count);
        boolean[] recent = new boolean[all.count];
        for (int op = 0; op < all.count; op++) {
            recent[op] = core[op] && all.ret[op] >= returns[count - size];
        }
        return recent;
    }

    /** Whether it came to an end in this mode, be it for lack of time. */
    private boolean shrink() {
        doubtful = false;
        if (!shrink(STEPS)) {
            return false;
        }
        boolean again = doubtful;
        for (int round = 0; again && round < MOST_ROUNDS && !boundedChecker.spent(); round++) {
            doubtful = false;
            int before = count(core);
            if (!shrink(PATIENT_STEPS)) {
                return false;
            }
            again = mode == Mode.FORGOTTEN && count(core) < before; // to forget more may forbid more
        }
        return true;
    }

    /** Take away ever smaller pieces. False, and not to the end, when a core of this mode would be too long. */
    private boolean shrink(long steps) {
        int[] candidates = candidates();
        for (int size = Math.max(1, candidates.length / 2); candidates.length > 0; size = Math.max(1, size / 2)) {
            int left = 0;
            int pieces = 0;
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
                    if (++pieces > LONGEST_STORY && mode != Mode.FORGOTTEN) {
                        return false; // the core has at least one of each piece
                    }
                }
            }
            candidates = Arrays.copyOf(candidates, left);
            if (size == 1) {
                break;
            }
        }
        return true;
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

    /** Whether those that are kept contradict each other, whatever became of the others; false also when unclear. */
    private boolean forbidden(boolean[] kept, long steps) {
        Decision decision = null;
        if (!boundedChecker.spent()) {
            if (mode == Mode.FORGOTTEN) {
                decision = boundedChecker.judge(SubHistory.only(all, kept), steps);
            } else {
                PowersetModel choices = choices(kept);
                decision = boundedChecker.search(choices.operations, choices, steps);
            }
            Operations loosened = decision == null && mode == Mode.OPTIONAL ? SubHistory.loosened(all, kept) : null;
            if (loosened != null && loosened.count - count(kept) <= MOST_LOOSE) {
                decision = boundedChecker.judge(loosened, steps);
                doubtful |= decision != null && decision.valid(); // it allows more than it should
            }
        }
        doubtful |= decision == null;
        return decision != null && !decision.valid();
    }

    private PowersetModel choices(boolean[] kept) {
        return PowersetModel.of(all, kept, until, mode == Mode.OPTIONAL, states);
    }

    private boolean[] story() {
        boolean[] story = core.clone();
        for (int op = 0; op < all.count && !boundedChecker.spent(); op++) {
            if (!core[op]) {
                continue;
            }
            boolean[] rest = core.clone();
            rest[op] = false;
            PowersetModel choices = choices(rest);
            Decision decision = boundedChecker.search(choices.operations, choices, STEPS);
            if (decision != null && decision.valid()) {
                for (int used : choices.effective(decision.order())) {
                    story[used] = true;
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
