package stormproof;

/**
 * The state of one partition while its verdict is sought: what was proven and by whom, else how far the searches got.
 * Searches of one partition may run in different threads; the first proof counts, and any other says the same. The
 * cheaper partition comes first.
 */
final class Contest implements Comparable<Contest> {
    enum Reason {
        TIME("time"),
        MEMORY("memory"),
        /** Another object had a violation, which ended all. */
        STOPPED("stopped");

        final String text;

        Reason(String text) {
            this.text = text;
        }
    }

    final Partition partition;
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

    Contest(Partition partition) {
        this.partition = partition;
        this.cost = partition.cost();
    }

    @Override
    public int compareTo(Contest other) {
        return Integer.compare(cost, other.cost);
    }

    Decision decision() {
        return decision;
    }

    boolean decided() {
        return decision != null;
    }

    boolean violated() {
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
    synchronized boolean leave(long visited, int completedPlaced, long shareRefused) {
        open--;
        configurations += visited;
        placed = Math.max(placed, completedPlaced);
        refusedBytes = shareRefused;
        return open == 0;
    }

    /** Why there is no verdict: what ended the last search. */
    synchronized Reason reason(boolean stopped) {
        return stopped ? Reason.STOPPED : refusedBytes > 0 ? Reason.MEMORY : Reason.TIME;
    }

    synchronized long refusedBytes() {
        return refusedBytes;
    }

    synchronized String decidedBy() {
        return decidedBy;
    }

    synchronized int stuck() {
        return stuck;
    }

    synchronized long configurations() {
        return configurations;
    }

    synchronized int placed() {
        return placed;
    }
}
