package stormproof.model;

/**
 * A proof.
 *
 * @param order when linearizable: ops in the order in which they took effect (all completed ones; of the crashed ones
 *     those that took effect). Null when not.
 * @param reason when not: a sentence that names the pattern
 * @param culprits when not: ops that alone, with the rest of the history removed, are still not linearizable; may be
 *     empty when the algorithm does not know them
 */
public record Decision(int[] order, String reason, int[] culprits) {
    public static Decision linearizable(int[] order) {
        return new Decision(order, "", new int[0]);
    }

    public static Decision violation(String reason, int... culprits) {
        return new Decision(null, reason, culprits);
    }

    public boolean valid() {
        return order != null;
    }
}
