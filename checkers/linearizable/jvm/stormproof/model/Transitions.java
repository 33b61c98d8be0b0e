package stormproof.model;

import java.util.Arrays;
import stormproof.util.LongInterner;

/**
 * States whose steps cost more than a look-up: each is computed once and then remembered, in an open-addressing table
 * from (state, kind) to the next state.
 */
public abstract class Transitions implements States {
    private static final long FREE = -1;

    private final long kinds;
    private long[] from = new long[64];
    private int[] to = new int[64];
    private int size;

    public Transitions(int kinds) {
        this.kinds = kinds;
        Arrays.fill(from, FREE);
    }

    /** The transition itself, computed. */
    protected abstract int compute(int state, int kind);

    /** About how much memory the contents of the states take. */
    protected abstract long contentBytes();

    @Override
    public final int step(int state, int kind) {
        long key = state * kinds + kind;
        int slot = slot(key);
        if (from[slot] == key) {
            return to[slot];
        }
        int next = compute(state, kind);
        if (2 * (size + 1) > from.length) {
            grow();
            slot = slot(key);
        }
        size++;
        from[slot] = key;
        to[slot] = next;
        return next;
    }

    @Override
    public final long bytes() {
        return 12L * from.length + contentBytes();
    }

    private int slot(long key) {
        int mask = from.length - 1;
        int slot = (int) LongInterner.mix(key) & mask;
        while (from[slot] != FREE && from[slot] != key) {
            slot = (slot + 1) & mask;
        }
        return slot;
    }

    private void grow() {
        long[] oldFrom = from;
        int[] oldTo = to;
        from = new long[2 * oldFrom.length];
        to = new int[from.length];
        Arrays.fill(from, FREE);
        for (int i = 0; i < oldFrom.length; i++) {
            if (oldFrom[i] != FREE) {
                int slot = slot(oldFrom[i]);
                from[slot] = oldFrom[i];
                to[slot] = oldTo[i];
            }
        }
    }
}
