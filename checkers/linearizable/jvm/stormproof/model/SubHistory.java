package stormproof.model;

import java.util.Arrays;
import stormproof.util.LongInterner;

/** Cuts and loosens the operations of a partition; what comes out is a partition in its own right. */
public final class SubHistory {
    private static final int LEFT_OUT = -1;

    /** What had happened up to an event, the event left out: who returned at it or later has crashed. */
    public static Operations before(Operations all, int event) {
        int[] ret = new int[all.count];
        for (int op = 0; op < all.count; op++) {
            ret[op] = all.call[op] >= event ? LEFT_OUT : all.ret[op] >= event ? Operations.NEVER : all.ret[op];
        }
        return of(all, ret);
    }

    /**
     * Without dequeues that crashed, or had not returned, whose value nobody puts in: they can't have happened, but to
     * a search they are one possibility more at every step.
     */
    public static Operations withoutVainDequeues(Operations all, long[] init) {
        LongInterner supply = new LongInterner();
        for (long value : init) {
            supply.place(value);
        }
        for (int kind = 0; kind < all.kinds; kind++) {
            if (all.function[kind] == Function.ENQUEUE) {
                supply.place(all.arguments[kind][0]);
            }
        }
        int[] ret = all.ret.clone();
        for (int op = 0; op < all.count; op++) {
            if (all.crashed(op) && all.functionOf(op) == Function.DEQUEUE) {
                long value = all.argumentsOf(op)[0];
                boolean possible = value == Function.UNKNOWN || value == Function.NIL;
                ret[op] = possible || supply.find(value) != LongInterner.ABSENT ? ret[op] : LEFT_OUT;
            }
        }
        return of(all, ret);
    }

    /**
     * Only those that are kept promise anything; all others may have happened at any time after their calls, or never.
     * Whatever this allows, the kept ones alone would not forbid.
     */
    public static Operations loosened(Operations all, boolean[] kept) {
        int[] ret = new int[all.count];
        for (int op = 0; op < all.count; op++) {
            ret[op] = kept[op] ? all.ret[op] : Operations.NEVER;
        }
        return of(all, ret);
    }

    /** Those that are kept, alone. */
    public static Operations only(Operations all, boolean[] kept) {
        int[] ret = new int[all.count];
        for (int op = 0; op < all.count; op++) {
            ret[op] = kept[op] ? all.ret[op] : LEFT_OUT;
        }
        return of(all, ret);
    }

    /**
     * The operations with other returns. Crashed ones that observe only, or that were called when all completed ones
     * had returned, restrict and allow nothing and are left out too.
     */
    private static Operations of(Operations all, int[] ret) {
        int last = -1;
        for (int op = 0; op < all.count; op++) {
            if (ret[op] != Operations.NEVER) {
                last = Math.max(last, ret[op]);
            }
        }
        int[] members = new int[all.count];
        int count = 0;
        for (int op = 0; op < all.count; op++) {
            boolean useless = ret[op] == Operations.NEVER
                    && (all.call[op] > last || Function.observes(all.functionOf(op)));
            if (ret[op] != LEFT_OUT && !useless) {
                members[count++] = op;
            }
        }
        return of(all, Arrays.copyOf(members, count), ret);
    }

    /** These members alone, with the returns given by op. */
    public static Operations of(Operations all, int[] members, int[] ret) {
        int count = members.length;
        int[] number = new int[count];
        int[] call = new int[count];
        int[] newRet = new int[count];
        int[] kind = new int[count];
        int[] function = new int[Math.min(count, all.kinds)];
        long[][] arguments = new long[function.length][];
        LongInterner kinds = new LongInterner();
        for (int i = 0; i < count; i++) {
            int op = members[i];
            number[i] = all.number[op];
            call[i] = all.call[op];
            newRet[i] = ret[op];
            kind[i] = kinds.place(all.kind[op]);
            function[kind[i]] = all.functionOf(op);
            arguments[kind[i]] = all.argumentsOf(op);
        }
        return new Operations(
                number,
                call,
                newRet,
                kind,
                Arrays.copyOf(function, kinds.size()),
                Arrays.copyOf(arguments, kinds.size()));
    }

    private SubHistory() {}
}
