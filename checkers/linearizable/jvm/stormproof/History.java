package stormproof;

/** One history as it was packed; see {@link Packed} for the columns. {@code ret} is -1 for a crashed operation. */
record History(
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
    int operations() {
        return call.length;
    }
}
