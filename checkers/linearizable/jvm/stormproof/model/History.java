package stormproof.model;

/** One history as it was packed; see {@code Packed} for the columns. {@code ret} is -1 for a crashed operation. */
public record History(
        String id,
        String model,
        long[] init,
        String[] values,
        String[] keys,
        int[] process,
        int[] key,
        byte[] function,
        int[] call,
        int[] ret,
        int[] start,
        long[] arguments) {
    public int operations() {
        return call.length;
    }
}
