package stormproof.search;

/**
 * A search for a linearization of one object's operations that can be stopped and resumed, so that several compete in
 * one thread. Not for use by several threads at once.
 */
public interface Search {
    enum Status {
        RUNNING,
        LINEARIZABLE,
        VIOLATION,
        /** The budget refused memory; the search can't go on, and has given back what it could. */
        GAVE_UP
    }

    /**
     * The end of one branch that got as far as any: ops in the order in which they were linearized, and the state there.
     * {@code stuck} is the completed op that must be linearized next and can't be, -1 when the search doesn't know.
     */
    record Furthest(int[] order, int state, int stuck) {}

    String name();

    /** Go on for about so many steps (a step visits one configuration). Once not RUNNING, the status stays. */
    Status run(long steps);

    /** Distinct configurations visited so far. */
    long configurations();

    /** After LINEARIZABLE, when the search was made to keep orders: a {@code Decision.order}. */
    int[] order();

    /** After VIOLATION or while undecided: up to {@code limit} longest branches; the completed ops placed decide. */
    Furthest[] furthest(int limit);

    /** Give all memory back to the budget. */
    void close();
}
