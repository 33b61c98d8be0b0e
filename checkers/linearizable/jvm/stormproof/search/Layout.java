package stormproof.search;

import java.util.Arrays;

/**
 * How a configuration is packed into words: word 0 holds level and state; the words behind it a bit for each slot of
 * the {@link Window} (linearized above the level), then a field for each class of crashed ops. A class that is counted
 * (see {@link Abstraction}) has a spare bit above its count that is always 0: it lets one subtraction compare all
 * counts of a word. The field of another class can hold one more than there are ops, and tells no configurations apart.
 */
final class Layout {
    final int words;
    /** By word: the bits that must be equal. */
    final long[] exact;
    /** By word: the bits of the counts that are compared. */
    final long[] compared;
    /** By word: the spare bits. */
    final long[] spare;
    /** Whether any class is counted. */
    final boolean counts;

    private final int slots;
    private final int[] most; // by class: how many ops it has
    private final int[] countWord;
    private final int[] countShift;
    private final long[] countMask;

    Layout(Window window, boolean[] counted) {
        int classes = window.classes;
        most = new int[classes];
        countWord = new int[classes];
        countShift = new int[classes];
        countMask = new long[classes];
        slots = window.slots;
        int bit = slots;
        boolean any = false;
        for (int c = 0; c < classes; c++) {
            any |= counted[c];
            most[c] = window.crashedCount(c);
            int largest = counted[c] ? most[c] : most[c] + 1;
            int bits = 32 - Integer.numberOfLeadingZeros(largest);
            int width = counted[c] ? bits + 1 : bits;
            if ((bit & 63) + width > 64) {
                bit = (bit | 63) + 1;
            }
            countWord[c] = 1 + (bit >> 6);
            countShift[c] = bit & 63;
            countMask[c] = (1L << bits) - 1;
            bit += width;
        }
        counts = any;
        words = 1 + (bit + 63 >> 6);
        exact = new long[words];
        compared = new long[words];
        spare = new long[words];
        Arrays.fill(exact, -1L);
        for (int c = 0; c < classes; c++) {
            long field = countMask[c] << countShift[c];
            exact[countWord[c]] &= ~field;
            if (counted[c]) {
                compared[countWord[c]] |= field;
                spare[countWord[c]] |= countMask[c] + 1 << countShift[c];
            }
        }
        for (int w = 0; w < words; w++) {
            exact[w] &= ~spare[w];
        }
    }

    static int level(long[] key) {
        return (int) (key[0] >>> 32);
    }

    /** How many completed ops are linearized. */
    int placed(long[] key) {
        int placed = level(key);
        for (int w = 0; 64 * w < slots; w++) {
            long known = slots - 64 * w < 64 ? (1L << slots) - 1 : -1L; // the shift counts modulo 64
            placed += Long.bitCount(key[1 + w] & known);
        }
        return placed;
    }

    static int state(long[] key) {
        return (int) key[0];
    }

    static void setLevel(long[] key, int level) {
        key[0] = (long) level << 32 | key[0] & 0xffffffffL;
    }

    static void setState(long[] key, int state) {
        key[0] = key[0] & 0xffffffff00000000L | state;
    }

    static boolean has(long[] key, int slot) {
        return (key[1 + (slot >> 6)] >>> slot & 1) != 0;
    }

    static void flip(long[] key, int slot) {
        key[1 + (slot >> 6)] ^= 1L << slot;
    }

    int count(long[] key, int cls) {
        return (int) (key[countWord[cls]] >>> countShift[cls] & countMask[cls]);
    }

    void countUp(long[] key, int cls) {
        key[countWord[cls]] += 1L << countShift[cls];
    }

    /** Note that the class was used beyond its means. */
    void overuse(long[] key, int cls) {
        key[countWord[cls]] += most[cls] + 1L - count(key, cls) << countShift[cls];
    }

    boolean overused(long[] key, int cls) {
        return count(key, cls) > most[cls];
    }
}
