package stormproof;

import java.util.Arrays;

/** Cuts and loosens the operations of a partition; what comes out is a partition in its own right. */
final class Excerpt {
    /** For {@link #of}: the operation is left out. */
    static final int LEFT_OUT = -1;

    /** What had happened up to an event, the event left out: who returned at it or later has crashed. */
    static Operations before(Operations all, int event) {
        int[] ret = new int[all.count];
        for (int op = 0; op < all.count; op++) {
            ret[op] = all.call[op] >= event ? LEFT_OUT : all.ret[op] >= event ? Operations.NEVER : all.ret[op];
        }
        return of(all, ret);
    }

    /**
     * Only those that are kept promise anything; all others may have happened at any time after their calls, or never.
     * Whatever this allows, the kept ones alone would not forbid.
     */
    static Operations loosened(Operations all, boolean[] kept) {
        int[] ret = new int[all.count];
        for (int op = 0; op < all.count; op++) {
            ret[op] = kept[op] ? all.ret[op] : Operations.NEVER;
        }
        return of(all, ret);
    }

    /** Those that are kept, alone. */
    static Operations only(Operations all, boolean[] kept) {
        int[] ret = new int[all.count];
        for (int op = 0; op < all.count; op++) {
            ret[op] = kept[op] ? all.ret[op] : LEFT_OUT;
        }
        return of(all, ret);
    }

    /**
     * The operations with other returns. Crashed ones that observe only, or that were called when all completed ones had
     * returned, restrict and allow nothing and are left out too.
     */
    static Operations of(Operations all, int[] ret) {
        int last = -1;
        for (int op = 0; op < all.count; op++) {
            if (ret[op] != Operations.NEVER) {
                last = Math.max(last, ret[op]);
            }
        }
        int[] number = new int[all.count];
        int[] call = new int[all.count];
        int[] newRet = new int[all.count];
        int[] kind = new int[all.count];
        int[] newKind = new int[all.kinds]; // + 1
        int[] function = new int[all.kinds];
        long[][] arguments = new long[all.kinds][];
        int count = 0;
        int kinds = 0;
        for (int op = 0; op < all.count; op++) {
            boolean crashed = ret[op] == Operations.NEVER;
            if (ret[op] == LEFT_OUT
                    || (crashed && (all.call[op] > last || Function.observes(all.functionOf(op))))) {
                continue;
            }
            int old = all.kind[op];
            if (newKind[old] == 0) {
                function[kinds] = all.function[old];
                arguments[kinds] = all.arguments[old];
                newKind[old] = ++kinds;
            }
            number[count] = all.number[op];
            call[count] = all.call[op];
            newRet[count] = ret[op];
            kind[count++] = newKind[old] - 1;
        }
        return new Operations(
                Arrays.copyOf(number, count),
                Arrays.copyOf(call, count),
                Arrays.copyOf(newRet, count),
                Arrays.copyOf(kind, count),
                Arrays.copyOf(function, kinds),
                Arrays.copyOf(arguments, kinds));
    }

    private Excerpt() {}
}
