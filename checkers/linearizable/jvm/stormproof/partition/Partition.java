package stormproof.partition;

import stormproof.model.Operations;

/**
 * One object of a history, or one independent part of it ({@code Model.part}), to be judged on its own.
 *
 * @param key the object's key, null where the history has one object without a key
 * @param whole all operations on the object
 * @param operations those of the part; the same as the whole when it is not divided
 */
public record Partition(String key, Operations whole, Operations operations) {
    /** A guess of how much work its verdict costs: crashed operations stay possible to the end. */
    public int cost() {
        return operations.count + 8 * (operations.count - completed());
    }

    public int completed() {
        int completed = 0;
        for (int op = 0; op < operations.count; op++) {
            if (!operations.crashed(op)) {
                completed++;
            }
        }
        return completed;
    }
}
