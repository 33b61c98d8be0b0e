package stormproof.explain;

import java.util.List;

/**
 * Why an object is not linearizable. Numbers are those of the operations in the history.
 *
 * @param reason a sentence about the minimal sub-history, empty when only a search tells that it is illegal
 * @param prefix a lawful order of the history up to before the return of {@code blocked}
 * @param blocked the completed operation that can't be placed
 * @param deadEnds up to ten configurations before that return
 * @param minimal a sub-history that is not linearizable either, see {@link Minimize}
 */
public record Witness(String key, String reason, int[] prefix, int blocked, List<DeadEnd> deadEnds, int[] minimal) {
    /** What was linearized, in order, the state then, and the pending operations that are illegal there. */
    public record DeadEnd(int[] order, String state, int[] illegal) {}
}
