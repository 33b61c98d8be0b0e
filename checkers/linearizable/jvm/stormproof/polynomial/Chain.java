package stormproof.polynomial;

import java.util.Arrays;

/**
 * Items in groups, each group in a given order; items are taken out and put back, the last one taken first (Knuth's
 * dancing links).
 */
final class Chain {
    private final int items;
    private final int[] next; // by item, then by group: its first item, or itself
    private final int[] previous;

    /** {@code order}: all items, each group's in their order; {@code group} by item. */
    Chain(int[] order, int[] group, int groups) {
        items = order.length;
        next = new int[items + groups];
        previous = new int[items + groups];
        Arrays.setAll(next, i -> i);
        Arrays.setAll(previous, i -> i);
        for (int item : order) {
            int end = items + group[item];
            next[item] = end;
            previous[item] = previous[end];
            next[previous[end]] = item;
            previous[end] = item;
        }
    }

    /** The first item of a group, -1: there is none left. */
    int first(int group) {
        return known(next[items + group]);
    }

    /** The item after this one, -1: it is the last. */
    int after(int item) {
        return known(next[item]);
    }

    void take(int item) {
        next[previous[item]] = next[item];
        previous[next[item]] = previous[item];
    }

    void putBack(int item) {
        next[previous[item]] = item;
        previous[next[item]] = item;
    }

    private int known(int item) {
        return item < items ? item : -1;
    }
}
