package stormproof.util;

import java.util.Arrays;

/** Gives long numbers dense places, 0 upwards, in the order in which they first come: an open-addressing table. */
public final class LongInterner {
    public static final int ABSENT = -1;

    private long[] all = new long[8];
    private int[] table = new int[16]; // place + 1; 0: free
    private int size;

    /** The place of this number, a new one if it had none. */
    public int place(long number) {
        int slot = slot(number);
        if (table[slot] != 0) {
            return table[slot] - 1;
        }
        if (2 * (size + 1) > table.length) {
            grow();
            slot = slot(number);
        }
        if (size == all.length) {
            all = Arrays.copyOf(all, 2 * size);
        }
        all[size] = number;
        table[slot] = ++size;
        return size - 1;
    }

    /** The place of this number, {@link #ABSENT} if it has none. */
    public int find(long number) {
        return table[slot(number)] - 1;
    }

    public long at(int place) {
        return all[place];
    }

    public int size() {
        return size;
    }

    public long bytes() {
        return 8L * all.length + 4L * table.length;
    }

    /** Spread the bits of a number over a whole word (the finalizer of MurmurHash3). */
    public static long mix(long number) {
        long h = number;
        h = (h ^ (h >>> 33)) * 0xff51afd7ed558ccdL;
        h = (h ^ (h >>> 33)) * 0xc4ceb9fe1a85ec53L;
        return h ^ (h >>> 33);
    }

    private int slot(long number) {
        int mask = table.length - 1;
        int slot = (int) mix(number) & mask;
        while (table[slot] != 0 && all[table[slot] - 1] != number) {
            slot = (slot + 1) & mask;
        }
        return slot;
    }

    private void grow() {
        table = new int[2 * table.length];
        for (int i = 0; i < size; i++) {
            table[slot(all[i])] = i + 1;
        }
    }
}
