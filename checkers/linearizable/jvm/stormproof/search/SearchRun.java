package stormproof.search;

import stormproof.model.Decision;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.util.Budget;

/** One search that competes for the verdict on one partition, with a share of the memory of its own. */
public final class SearchRun {
    public enum Kind {
        DEPTH_FIRST,
        BREADTH_FIRST;

        public Search search(Operations operations, States states, Budget budget, boolean keepOrders) {
            return this == DEPTH_FIRST
                    ? new DepthFirst(operations, states, budget, keepOrders)
                    : new BreadthFirst(operations, states, budget, keepOrders);
        }
    }

    private static final long FIRST_TURN = 2_000; // steps
    private static final long LONGEST_TURN = 2_000_000;
    private static final long FIRST_SLICE = 250;
    private static final long SHORT_SLICE_NANOS = 1_000_000;
    private static final long LONG_SLICE_NANOS = 4_000_000;

    final PartitionState partitionState;
    final Kind kind;
    private final Budget share;
    private final boolean keepOrders;
    private final Search search;
    private long turn = FIRST_TURN;
    private long slice = FIRST_SLICE;

    SearchRun(PartitionState partitionState, Kind kind, States states, Budget share, boolean keepOrders) {
        this.partitionState = partitionState;
        this.kind = kind;
        this.share = share;
        this.keepOrders = keepOrders;
        this.search = kind.search(partitionState.partition.operations(), states, share, keepOrders);
        partitionState.enter();
    }

    /**
     * One turn: four times as many steps as the turn before, in slices of a few milliseconds. RUNNING also when it was
     * cut short because somebody has a proof, time is up or the whole competition is over.
     */
    Search.Status turn(long shareBytes, Competition competition) {
        share.limit(shareBytes);
        long left = turn;
        turn = Math.min(4 * turn, LONGEST_TURN);
        Search.Status status = Search.Status.RUNNING;
        while (left > 0 && status == Search.Status.RUNNING && !done(competition)) {
            long steps = Math.min(slice, left);
            long before = System.nanoTime();
            status = search.run(steps);
            long nanos = System.nanoTime() - before;
            left -= steps;
            if (nanos > LONG_SLICE_NANOS) {
                slice = Math.max(slice / 2, 1);
            } else if (nanos < SHORT_SLICE_NANOS && steps == slice) {
                slice *= 2;
            }
        }
        if (status == Search.Status.LINEARIZABLE) {
            partitionState.decide(search.name(), Decision.linearizable(keepOrders ? search.order() : new int[0]), -1);
        } else if (status == Search.Status.VIOLATION) {
            Search.Furthest[] ends = search.furthest(1);
            partitionState.decide(search.name(), Decision.violation(""), ends.length == 0 ? -1 : ends[0].stuck());
        }
        return status;
    }

    /** Whether there is no use in another turn. */
    boolean done(Competition competition) {
        return partitionState.decided() || competition.over() || share.timeIsUp();
    }

    long deadlineNanos() {
        return share.deadlineNanos();
    }

    /** Note how far it got and give all memory back; see {@link PartitionState#leave}. */
    boolean leave(long shareRefused) {
        int placed = 0;
        long configurations = search.configurations();
        if (!partitionState.decided()) {
            for (Search.Furthest end : search.furthest(1)) {
                for (int op : end.order()) {
                    placed += partitionState.partition.operations().crashed(op) ? 0 : 1;
                }
            }
        }
        search.close();
        return partitionState.leave(configurations, placed, shareRefused);
    }
}
