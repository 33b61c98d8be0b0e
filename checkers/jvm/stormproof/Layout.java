package stormproof;

/**
 * How a configuration is packed into words: word 0 holds level and state; the words behind it a bit for each slot of the
 * {@link Window} (linearized above the level), then a count for each class of crashed ops, with a spare bit above each
 * count that is always 0. The spare bits let one subtraction compare all counts of a word.
 */
final class Layout {
    final int words;
    /** By word: the bits that are no counts. */
    final long[] exact;
    /** By word: the spare bits. */
    final long[] spare;
    final boolean counts;

    private final int[] countWord;
    private final int[] countShift;
    private final long[] countMask;

    Layout(Window window) {
        int bit = window.slots;
        int classes = window.classes;
        counts = classes > 0;
        countWord = new int[classes];
        countShift = new int[classes];
        countMask = new long[classes];
        for (int c = 0; c < classes; c++) {
            int width = 33 - Integer.numberOfLeadingZeros(window.crashedCount(c));
            if ((bit & 63) + width > 64) {
                bit = (bit | 63) + 1;
            }
            countWord[c] = 1 + (bit >> 6);
            countShift[c] = bit & 63;
            countMask[c] = (1L << width - 1) - 1;
            bit += width;
        }
        words = 1 + (bit + 63 >> 6);
        exact = new long[words];
        spare = new long[words];
        java.util.Arrays.fill(exact, -1L);
        for (int c = 0; c < classes; c++) {
            exact[countWord[c]] &= ~(countMask[c] << countShift[c]);
            long guard = countMask[c] + 1 << countShift[c];
            exact[countWord[c]] &= ~guard;
            spare[countWord[c]] |= guard;
        }
    }

    static int level(long[] key) {
        return (int) (key[0] >>> 32);
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
}
