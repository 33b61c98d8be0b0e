package stormproof.util;

import java.util.Arrays;

/** Numbers sequences of longs, 0 upwards; equal sequences get equal numbers, compared word by word. */
public final class SequenceInterner {
    private long[] words = new long[32];
    private int[] start = new int[9];
    private int[] table = new int[16]; // number + 1; 0: free
    private int size;

    /** The number of the first {@code length} longs, a new one if they had none. They are copied. */
    public int number(long[] content, int length) {
        int slot = slot(content, 0, length);
        if (table[slot] != 0) {
            return table[slot] - 1;
        }
        if (2 * (size + 1) > table.length) {
            grow();
            slot = slot(content, 0, length);
        }
        int from = start[size];
        if (from + length > words.length) {
            words = Arrays.copyOf(words, Math.max(2 * words.length, from + length));
        }
        if (size + 2 > start.length) {
            start = Arrays.copyOf(start, 2 * start.length);
        }
        System.arraycopy(content, 0, words, from, length);
        start[size + 1] = from + length;
        table[slot] = ++size;
        return size - 1;
    }

    public int length(int number) {
        return start[number + 1] - start[number];
    }

    public long at(int number, int position) {
        return words[start[number] + position];
    }

    /** Copy a content to the front of an array that is long enough. */
    public void copy(int number, long[] target) {
        System.arraycopy(words, start[number], target, 0, length(number));
    }

    public int size() {
        return size;
    }

    public long bytes() {
        return 8L * words.length + 4L * start.length + 4L * table.length;
    }

    private int slot(long[] source, int from, int length) {
        long hash = length;
        for (int i = 0; i < length; i++) {
            hash = LongInterner.mix(hash ^ source[from + i]) + 0x9e3779b97f4a7c15L;
        }
        int mask = table.length - 1;
        int slot = (int) LongInterner.mix(hash) & mask;
        while (table[slot] != 0 && !same(table[slot] - 1, source, from, length)) {
            slot = (slot + 1) & mask;
        }
        return slot;
    }

    private boolean same(int number, long[] source, int from, int length) {
        return Arrays.equals(words, start[number], start[number + 1], source, from, from + length);
    }

    private void grow() {
        table = new int[2 * table.length];
        for (int i = 0; i < size; i++) {
            table[slot(words, start[i], length(i))] = i + 1;
        }
    }
}
