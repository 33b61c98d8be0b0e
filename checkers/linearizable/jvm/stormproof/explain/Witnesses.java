package stormproof.explain;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stormproof.model.Decision;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.model.SubHistory;
import stormproof.partition.Partition;
import stormproof.partition.Parts;
import stormproof.search.PartitionState;
import stormproof.search.Search;

/**
 * Explains a violation. Where the search's own explanation is incomplete (a depth-first search is stuck somewhere, a
 * {@code Shortcut} names a pattern), prefixes of the history are judged: if one is not linearizable, no longer one is,
 * so that the first illegal return is found by halving.
 */
public final class Witnesses {
    private static final int DEAD_ENDS = 10;
    private static final double PREFIX_SHARE = 0.8;
    private static final long PREFIX_STEPS = 20_000;
    private static final long REASON_STEPS = 1_000;
    private static final long DEAD_END_STEPS = 2_000;

    private final Partition partition;
    private final Operations all;
    private final BoundedChecker boundedChecker;
    /** Completed ops by their returns. */
    private final int[] returns;
    /** Places in {@code returns}: up to {@code legal} the history is linearizable, up to {@code illegal} it is not. */
    private int legal = -1;

    private int illegal;
    private int[] prefix = new int[0];
    /** Numbers of the culprits, as far as known, of the shortest illegal prefix. */
    private int[] culprits;

    private Witnesses(PartitionState partitionState, BoundedChecker boundedChecker) {
        this.partition = partitionState.partition;
        this.all = partition.whole();
        this.culprits = numbers(partition.operations(), partitionState.decision().culprits());
        this.boundedChecker = boundedChecker;
        this.returns = byReturn(all);
        this.illegal = returns.length - 1;
    }

    /**
     * The witness of an object's violation. When the checker's budget ends early it is right, but less exact.
     *
     * @param steps for all but the prefix, which may take most of what the checker has
     */
    public static Witness of(PartitionState partitionState, BoundedChecker boundedChecker, long steps) {
        Witnesses witnesses = new Witnesses(partitionState, boundedChecker);
        boundedChecker.phase(PREFIX_SHARE);
        witnesses.findBlocked(partitionState.stuck());
        boundedChecker.limit(steps);
        return witnesses.witness();
    }

    private Witness witness() {
        int number = all.number[returns[illegal]];
        List<Operations> parts = boundedChecker.parts(all);
        Operations part = parts.get(0);
        for (Operations other : parts) {
            part = other.opOf(number) >= 0 ? other : part;
        }
        int[] minimal = new Minimize(part, part.opOf(number), culpritsIn(part), boundedChecker).run();
        return new Witness(
                partition.key(),
                reason(part, minimal),
                prefix,
                number,
                deadEnds(part, part.opOf(number)),
                numbers(part, minimal));
    }

    /** Ops; none when one is not in this part. */
    private int[] culpritsIn(Operations part) {
        int[] ops = new int[culprits.length];
        for (int i = 0; i < ops.length; i++) {
            ops[i] = part.opOf(culprits[i]);
            if (ops[i] < 0) {
                return new int[0];
            }
        }
        return ops;
    }

    /** What an algorithm that needs no search says about the minimal part: the sentence that fits what is shown. */
    private String reason(Operations part, int[] minimal) {
        boolean[] kept = new boolean[part.count];
        for (int op : minimal) {
            kept[op] = true;
        }
        Decision decision = boundedChecker.judge(SubHistory.only(part, kept), REASON_STEPS);
        return decision == null || decision.valid() ? "" : decision.reason();
    }

    private static int[] byReturn(Operations all) {
        long[] ordered = new long[all.count];
        int count = 0;
        for (int op = 0; op < all.count; op++) {
            if (!all.crashed(op)) {
                ordered[count++] = (long) all.ret[op] << 32 | op;
            }
        }
        Arrays.sort(ordered, 0, count);
        int[] ops = new int[count];
        for (int i = 0; i < count; i++) {
            ops[i] = (int) ordered[i];
        }
        return ops;
    }

    /** {@code stuck}, an op of the partition, is where to look first, or -1. */
    private void findBlocked(int stuck) {
        int suspect = stuck < 0 ? -1 : all.opOf(partition.operations().number[stuck]);
        for (int number : culprits) {
            int culprit = all.opOf(number);
            if (!all.crashed(culprit) && (suspect < 0 || all.ret[culprit] > all.ret[suspect])) {
                suspect = culprit;
            }
        }
        if (suspect >= 0) {
            int place = 0;
            while (returns[place] != suspect) {
                place++;
            }
            if ((place == illegal || judge(place, PREFIX_STEPS)) && place == illegal && place > 0) {
                judge(place - 1, PREFIX_STEPS);
            }
        }
        int unclear = illegal;
        while (unclear - legal > 1) {
            int middle = (legal + unclear) >>> 1;
            unclear = judge(middle, PREFIX_STEPS) ? Math.min(unclear, illegal) : middle;
        }
        if (illegal - legal > 1) {
            judge(legal + 1, Long.MAX_VALUE);
        }
    }

    /** Judge the history up to and with a return, and note what that says. False when it can't be told. */
    private boolean judge(int place, long steps) {
        Operations cut = boundedChecker.withoutVain(SubHistory.before(all, all.ret[returns[place]] + 1));
        Decision decision = boundedChecker.judge(cut, steps);
        if (decision == null) {
            return false;
        }
        if (decision.valid()) {
            legal = place;
            prefix = numbers(cut, decision.order());
        } else {
            illegal = place;
            culprits = numbers(cut, decision.culprits());
        }
        return true;
    }

    /** The dead ends of the part that holds the blocked op, each with the other parts in the order of the prefix. */
    private List<Witness.DeadEnd> deadEnds(Operations part, int blocked) {
        int until = part.ret[blocked] + 1;
        Operations cut = SubHistory.before(part, until);
        List<Witness.DeadEnd> ends = new ArrayList<>();
        States states = boundedChecker.states(all);
        for (Search.Furthest end : boundedChecker.deadEnds(cut, 4 * DEAD_ENDS, DEAD_END_STEPS)) {
            if (ends.size() < DEAD_ENDS && end.stuck() >= 0 && cut.number[end.stuck()] == part.number[blocked]) {
                ends.add(deadEnd(withOthers(part, cut, end.order()), until, states));
            }
        }
        if (ends.isEmpty()) {
            ends.add(deadEnd(prefix, until, states));
        }
        return ends;
    }

    private int[] withOthers(Operations part, Operations cut, int[] order) {
        int[] others = new int[prefix.length];
        int count = 0;
        for (int number : prefix) {
            if (part.opOf(number) < 0) {
                others[count++] = all.opOf(number);
            }
        }
        return Parts.merged(List.of(cut, all), List.of(order, Arrays.copyOf(others, count)));
    }

    private Witness.DeadEnd deadEnd(int[] order, int until, States states) {
        boolean[] placed = new boolean[all.count];
        int state = states.initial();
        for (int number : order) {
            int op = all.opOf(number);
            placed[op] = true;
            state = states.step(state, all.kind[op]);
        }
        int[] illegalThere = new int[all.count];
        int count = 0;
        for (int op = 0; op < all.count && all.call[op] < until; op++) {
            if (!placed[op] && states.step(state, all.kind[op]) == States.ILLEGAL) {
                illegalThere[count++] = all.number[op];
            }
        }
        return new Witness.DeadEnd(order, states.describe(state), Arrays.copyOf(illegalThere, count));
    }

    private static int[] numbers(Operations operations, int[] ops) {
        int[] numbers = new int[ops.length];
        for (int i = 0; i < ops.length; i++) {
            numbers[i] = operations.number[ops[i]];
        }
        return numbers;
    }
}
