package stormproof.search;

import java.util.Arrays;
import stormproof.model.States;
import stormproof.util.Budget;
import stormproof.util.LongInterner;

/**
 * Remembers the transitions of a model, so that the loop of a search asks the model about a (state, kind) only once: a
 * dense table for the first states, open addressing for those beyond. Several searches in one thread may share it.
 */
final class Memo {
    private static final int UNASKED = -2;
    /** Entries of the dense table, at most: 4 MiB. */
    private static final int DENSE = 1 << 20;
    /** The states' own memory is settled with the budget in portions of this size. */
    private static final long PORTION_BYTES = 1 << 16;
    private static final int MOST = 1 << 29;

    private final States states;
    private final Budget budget;
    private final int kinds;
    private final int mostRows;
    /** next[state * kinds + kind]. */
    private int[] dense = {};
    private int rows;
    /** state << 32 | kind, plus one, so that 0 is free. */
    private long[] keys = {};
    private int[] values = {};
    private int used;
    private long statesBytes;
    private int sinceSettled;
    private boolean refused;

    Memo(States states, int kinds, Budget budget) {
        this.states = states;
        this.kinds = kinds;
        this.budget = budget;
        this.mostRows = kinds == 0 ? 0 : DENSE / kinds;
    }

    int initial() {
        return states.initial();
    }

    /** The state after an operation of this kind, or {@link States#ILLEGAL}. */
    int step(int state, int kind) {
        if (state < rows) {
            int at = state * kinds + kind;
            int next = dense[at];
            return next != UNASKED ? next : (dense[at] = ask(state, kind));
        }
        return beyond(state, kind);
    }

    /** Whether memory was refused: answers stay right, but the search must give up soon. */
    boolean refused() {
        return refused;
    }

    private int beyond(int state, int kind) {
        if (state < mostRows && growRows(state)) {
            return step(state, kind);
        }
        long key = ((long) state << 32 | kind) + 1;
        int at = find(key);
        if (at >= 0 && keys[at] == key) {
            return values[at];
        }
        int next = ask(state, kind);
        if (2 * (used + 1) > keys.length) {
            if (!growTable()) {
                refused = true;
                return next;
            }
            at = find(key);
        }
        keys[at] = key;
        values[at] = next;
        used++;
        return next;
    }

    /** Where the key is or would be; -1 while there is no table. */
    private int find(long key) {
        int mask = keys.length - 1;
        if (mask < 0) {
            return -1;
        }
        int at = (int) (LongInterner.mix(key) & mask);
        while (keys[at] != 0 && keys[at] != key) {
            at = at + 1 & mask;
        }
        return at;
    }

    private int ask(int state, int kind) {
        int next = states.step(state, kind);
        if (++sinceSettled == 64) {
            sinceSettled = 0;
            long now = states.bytes();
            if (now - statesBytes >= PORTION_BYTES) {
                if (budget.take(now - statesBytes)) {
                    statesBytes = now;
                } else {
                    refused = true;
                }
            }
        }
        return next;
    }

    private boolean growRows(int state) {
        int wanted = Math.min(mostRows, Math.max(state + 1, Math.max(8, 2 * rows)));
        if (!budget.take(4L * wanted * kinds)) {
            return false;
        }
        int before = dense.length;
        dense = Arrays.copyOf(dense, wanted * kinds);
        Arrays.fill(dense, before, dense.length, UNASKED);
        budget.giveBack(4L * before);
        rows = wanted;
        return true;
    }

    private boolean growTable() {
        int wanted = Math.max(64, 2 * keys.length);
        if (wanted > MOST || !budget.take(12L * wanted)) {
            return false;
        }
        long[] oldKeys = keys;
        int[] oldValues = values;
        keys = new long[wanted];
        values = new int[wanted];
        for (int i = 0; i < oldKeys.length; i++) {
            if (oldKeys[i] != 0) {
                int at = find(oldKeys[i]);
                keys[at] = oldKeys[i];
                values[at] = oldValues[i];
            }
        }
        budget.giveBack(12L * oldKeys.length);
        return true;
    }

    void close() {
        budget.giveBack(4L * dense.length + 12L * keys.length + statesBytes);
        dense = new int[0];
        rows = 0;
        keys = new long[0];
        values = new int[0];
        used = 0;
        statesBytes = 0;
    }
}
