package stormproof.polynomial;

import java.util.Arrays;
import stormproof.model.Operations;

/**
 * Reads whose order is known, and the room between them: slot i is before read i and after read i - 1, the last slot is
 * after all of them. Real time allows an op in slots from {@link #earliest} to {@link #latest} and in all between.
 */
final class Slots {
    private final Operations operations;
    final int[] reads;
    private final int[] latestCall; // by slot: of the reads before it
    private final int[] earliestReturn; // of the reads after it

    Slots(Operations operations, int[] reads) {
        this.operations = operations;
        this.reads = reads;
        int count = reads.length;
        latestCall = new int[count + 1];
        earliestReturn = new int[count + 1];
        latestCall[0] = -1;
        earliestReturn[count] = Operations.NEVER;
        for (int i = 0; i < count; i++) {
            latestCall[i + 1] = Math.max(latestCall[i], operations.call[reads[i]]);
        }
        for (int i = count - 1; i >= 0; i--) {
            earliestReturn[i] = Math.min(earliestReturn[i + 1], operations.ret[reads[i]]);
        }
    }

    /** A read that stands behind one that was called after it had returned; -1: none. */
    int misplaced() {
        for (int i = 0; i < reads.length; i++) {
            if (latestCall[i] > operations.ret[reads[i]]) {
                return reads[i];
            }
        }
        return -1;
    }

    /** The first slot: no read after it had returned when the op was called. */
    int earliest(int op) {
        int low = 0;
        int high = reads.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (earliestReturn[middle] > operations.call[op]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }

    /** The last slot: no read before it was called when the op had returned. */
    int latest(int op) {
        int low = 0;
        int high = reads.length;
        while (low < high) {
            int middle = (low + high + 1) >>> 1;
            if (latestCall[middle] < operations.ret[op]) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        return low;
    }

    /** The reads in order with these ops, by call, in their slots; {@code slot} is -1 for an op that is left out. */
    int[] order(int[] slot) {
        long[] all = new long[operations.count];
        int count = 0;
        for (int op = 0; op < operations.count; op++) {
            if (slot[op] >= 0) {
                all[count++] = 2L * slot[op] << 32 | op;
            }
        }
        for (int i = 0; i < reads.length; i++) {
            all[count++] = 2L * i + 1 << 32 | reads[i];
        }
        Arrays.sort(all, 0, count);
        return Arrays.stream(all, 0, count).mapToInt(op -> (int) op).toArray();
    }
}
