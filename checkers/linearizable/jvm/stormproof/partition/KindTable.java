package stormproof.partition;

import java.util.Arrays;
import stormproof.model.History;
import stormproof.util.LongInterner;

/** Numbers the kinds of operations of one partition: equal function and arguments, equal kind. */
final class KindTable {
    private int[] table = new int[64]; // kind + 1; 0: free
    private int[] function = new int[16];
    private long[][] arguments = new long[16][];
    private int size;

    void clear() {
        if (table.length > 1024) { // one large partition must not cost every later one
            table = new int[64];
        } else if (size > 0) {
            Arrays.fill(table, 0);
        }
        size = 0;
    }

    /** The kind of a history's operation. */
    int of(History history, int op) {
        int from = history.start()[op];
        int to = history.start()[op + 1];
        int slot = slot(history.function()[op], history.arguments(), from, to);
        if (table[slot] != 0) {
            return table[slot] - 1;
        }
        if (2 * (size + 1) > table.length) {
            grow();
            slot = slot(history.function()[op], history.arguments(), from, to);
        }
        if (size == function.length) {
            function = Arrays.copyOf(function, 2 * size);
            arguments = Arrays.copyOf(arguments, 2 * size);
        }
        function[size] = history.function()[op];
        arguments[size] = Arrays.copyOfRange(history.arguments(), from, to);
        table[slot] = ++size;
        return size - 1;
    }

    int[] functions() {
        return Arrays.copyOf(function, size);
    }

    long[][] arguments() {
        return Arrays.copyOf(arguments, size);
    }

    private int slot(int what, long[] source, int from, int to) {
        long hash = what + 1;
        for (int i = from; i < to; i++) {
            hash = LongInterner.mix(hash ^ source[i]) + 0x9e3779b97f4a7c15L;
        }
        int mask = table.length - 1;
        int slot = (int) LongInterner.mix(hash) & mask;
        while (table[slot] != 0) {
            int kind = table[slot] - 1;
            if (function[kind] == what
                    && Arrays.equals(arguments[kind], 0, arguments[kind].length, source, from, to)) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        return slot;
    }

    private void grow() {
        table = new int[2 * table.length];
        for (int kind = 0; kind < size; kind++) {
            table[slot(function[kind], arguments[kind], 0, arguments[kind].length)] = kind + 1;
        }
    }
}
