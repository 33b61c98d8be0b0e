package stormproof.polynomial;

import stormproof.model.Decision;
import stormproof.model.Operations;
import stormproof.util.Budget;

/** A polynomial algorithm that decides some histories of a model without a search. */
public interface Shortcut {
    String name();

    /**
     * Decide, or return null where the algorithm does not apply or can't tell. Runs in O(n log n) or says its bound;
     * takes what memory it needs from the budget first and returns null when that is refused.
     */
    Decision decide(Operations operations, long[] init, String[] values, Budget budget);
}
