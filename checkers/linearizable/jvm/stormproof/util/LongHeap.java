package stormproof.util;

import java.util.Arrays;

/** A binary heap of longs, the smallest first. */
public final class LongHeap {
    private long[] all = new long[16];
    private int size;

    public boolean isEmpty() {
        return size == 0;
    }

    public long peek() {
        return all[0];
    }

    public void add(long item) {
        if (size == all.length) {
            all = Arrays.copyOf(all, 2 * size);
        }
        int at = size++;
        while (at > 0 && all[(at - 1) >> 1] > item) {
            all[at] = all[(at - 1) >> 1];
            at = (at - 1) >> 1;
        }
        all[at] = item;
    }

    public long poll() {
        long least = all[0];
        long item = all[--size];
        int at = 0;
        while (2 * at + 1 < size) {
            int child = 2 * at + 1;
            child += child + 1 < size && all[child + 1] < all[child] ? 1 : 0;
            if (all[child] >= item) {
                break;
            }
            all[at] = all[child];
            at = child;
        }
        all[at] = item;
        return least;
    }
}
