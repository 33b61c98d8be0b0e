package stormproof.io;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import stormproof.model.History;

/**
 * Reads the packed form of a batch of histories, written by {@code checkers/linearizable/packing.py}. Little-endian
 * throughout:
 *
 * <pre>
 * batch     magic "SPLH" (4 bytes), format (i32, {@link #FORMAT}), number of histories (i32), histories
 * history   size of what follows (i32), id (text), model (text), init (i32 count, i64 each),
 *           values (i32 count, text each; the first is nil), keys (i32 count, text each), operations
 * operations  n (i32), then columns of n: process i32, key i32 (-1: none), function u8, call i32,
 *           ret i32 (-1: crashed); start i32[n + 1] into the arguments; arguments (i32 count, i64 each)
 * text      length in bytes (i32), UTF-8
 * </pre>
 *
 * Operations stand in the order of their calls; operations that surely did not happen are left out by the writer.
 */
public final class Packed {
    public static final int FORMAT = 1;
    private static final int MAGIC = 0x484c5053; // "SPLH"

    private final ByteBuffer bytes;
    public final int histories;

    public Packed(byte[] batch) {
        bytes = ByteBuffer.wrap(batch).order(ByteOrder.LITTLE_ENDIAN);
        if (batch.length < 12 || bytes.getInt() != MAGIC) {
            throw new IllegalArgumentException("these bytes are no batch of histories");
        }
        int format = bytes.getInt();
        if (format != FORMAT) {
            throw new IllegalArgumentException("packed format " + format + ", this checker reads " + FORMAT);
        }
        histories = count(4);
    }

    /**
     * The next history of the batch.
     *
     * @throws IllegalArgumentException when the bytes are damaged
     */
    public History next() {
        try {
            return read();
        } catch (BufferUnderflowException e) {
            throw new IllegalArgumentException("this batch of histories ends too early", e);
        }
    }

    private History read() {
        int end = count(1) + bytes.position();
        String id = text();
        String model = text();
        long[] init = longs(count(8));
        String[] values = texts();
        String[] keys = texts();
        int count = count(17);
        int[] process = ints(count);
        int[] key = ints(count);
        byte[] function = new byte[count];
        bytes.get(function);
        int[] call = ints(count);
        int[] ret = ints(count);
        int[] start = ints(count + 1);
        long[] arguments = longs(count(8));
        if (bytes.position() != end) {
            throw new IllegalArgumentException("history " + id + " is not as long as it says");
        }
        return new History(id, model, init, values, keys, process, key, function, call, ret, start, arguments);
    }

    /** The number of things that follow, each at least so many bytes long. */
    private int count(int size) {
        int count = bytes.getInt();
        if (count < 0 || count > bytes.remaining() / size) {
            throw new IllegalArgumentException("this batch of histories is damaged: " + count + " of something");
        }
        return count;
    }

    private String text() {
        byte[] content = new byte[count(1)];
        bytes.get(content);
        return new String(content, StandardCharsets.UTF_8);
    }

    private String[] texts() {
        String[] all = new String[count(4)];
        for (int i = 0; i < all.length; i++) {
            all[i] = text();
        }
        return all;
    }

    private int[] ints(int count) {
        int[] all = new int[count];
        bytes.asIntBuffer().get(all);
        bytes.position(bytes.position() + 4 * count);
        return all;
    }

    private long[] longs(int count) {
        long[] all = new long[count];
        bytes.asLongBuffer().get(all);
        bytes.position(bytes.position() + 8 * count);
        return all;
    }
}
