package stormproof.util;

import java.util.Arrays;

/**
 * Ints, appended and cut off at the end, whose memory the budget grants. After a refusal the list no longer takes
 * anything and says so; its owner must then give up.
 */
public final class IntList {
    private static final int FIRST_CAPACITY = 64;
    private static final int MOST = Integer.MAX_VALUE - 16;

    private final Budget budget;
    public int[] items = {};
    public int size;
    public boolean refused;

    public IntList(Budget budget) {
        this.budget = budget;
    }

    public void add(int item) {
        if (size == items.length && !grow()) {
            return;
        }
        items[size++] = item;
    }

    private boolean grow() {
        long wanted = Math.min(Math.max(FIRST_CAPACITY, 2L * items.length), MOST);
        if (refused || wanted <= size || !budget.take(4 * wanted)) {
            refused = true;
            return false;
        }
        int before = items.length;
        items = Arrays.copyOf(items, (int) wanted);
        budget.giveBack(4L * before);
        return true;
    }

    public void close() {
        budget.giveBack(4L * items.length);
        items = new int[0];
        size = 0;
    }
}
