package stormproof.search;

import stormproof.model.Decision;
import stormproof.partition.Partition;

/**
 * The state of one partition while its verdict is sought: what was proven and by whom, else how far the searches got.
 * Searches of one partition may run in different threads; the first proof counts, and any other says the same. The
 * cheaper partition comes first.
 */
public final class PartitionState implements Comparable<PartitionState> {
    public enum Reason {
        TIME("time"),
        MEMORY("memory"),
        /** Another object had a violation, which ended all. */
        STOPPED("stopped");

        public final String text;

        Reason(String text) {
            this.text = text;
        }
    }

    public final Partition partition;
    private final int cost;
    /** Null until there is a proof. Of a violation that a search found: without a reason and culprits. */
    private volatile Decision decision;
    private String decidedBy = "";
    /** The completed op at which the search that found a violation was stuck, -1 when unknown. */
    private int stuck = -1;
    private long configurations;
    private int placed;
    private long refusedBytes;
    private int open;
    private boolean rivalCalled;

    public PartitionState(Partition partition) {
        this.partition = partition;
        this.cost = partition.cost();
    }

    @Override
    public int compareTo(PartitionState other) {
        return Integer.compare(cost, other.cost);
    }

    public Decision decision() {
        return decision;
    }

    public boolean decided() {
        return decision != null;
    }

    public boolean violated() {
        Decision now = decision;
        return now != null && !now.valid();
    }

    synchronized void decide(String by, Decision proof, int stuckOp) {
        if (decision == null) {
            decidedBy = by;
            stuck = stuckOp;
            decision = proof;
        }
    }

    /** A search begins. */
    synchronized void enter() {
        open++;
    }

    /** True once: the depth-first search did not decide in its first turn, the other one shall join. */
    synchronized boolean callForRival() {
        boolean first = !rivalCalled;
        rivalCalled = true;
        return first;
    }

    /**
     * A search ends.
     *
     * @param visited configurations
     * @param completedPlaced how many completed ops it could place at most
     * @param shareRefused how much memory it had when it was refused more, 0 when it was not
     * @return whether it was the last
     */
    public synchronized boolean leave(long visited, int completedPlaced, long shareRefused) {
        open--;
        configurations += visited;
        placed = Math.max(placed, completedPlaced);
        refusedBytes = shareRefused;
        return open == 0;
    }

    /** Why there is no verdict: what ended the last search. */
    public synchronized Reason reason(boolean stopped) {
        return stopped ? Reason.STOPPED : refusedBytes > 0 ? Reason.MEMORY : Reason.TIME;
    }

    synchronized long refusedBytes() {
        return refusedBytes;
    }

    public synchronized String decidedBy() {
        return decidedBy;
    }

    public synchronized int stuck() {
        return stuck;
    }

    public synchronized long configurations() {
        return configurations;
    }

    public synchronized int placed() {
        return placed;
    }
}
