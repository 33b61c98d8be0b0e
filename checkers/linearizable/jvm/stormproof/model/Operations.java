package stormproof.model;

import java.util.Arrays;

/**
 * The operations on one object, in the order of their calls: one partition of a history (Herlihy and Wing, locality;
 * Horn and Kroening, P-compositionality). Columns, not objects. Positions in it are called <em>ops</em>.
 *
 * <p>Crashed operations that observe only, and completed reads of an unknown value, are not here: they restrict
 * nothing.
 */
public final class Operations {
    /** The return of an operation that crashed: it may take effect at any time after its call, or never. */
    public static final int NEVER = Integer.MAX_VALUE;

    public final int count;
    /** The operation's number in the history. */
    public final int[] number;
    /** Positions of the events in the history; distinct, calls ascending. */
    public final int[] call;
    public final int[] ret;
    /**
     * Which kind of operation: those of one kind have equal function and arguments, hence equal effect on any state.
     */
    public final int[] kind;
    public final int kinds;
    /** By kind. */
    public final int[] function;
    public final long[][] arguments;

    public Operations(int[] number, int[] call, int[] ret, int[] kind, int[] function, long[][] arguments) {
        this.count = number.length;
        this.number = number;
        this.call = call;
        this.ret = ret;
        this.kind = kind;
        this.kinds = function.length;
        this.function = function;
        this.arguments = arguments;
    }

    public boolean crashed(int op) {
        return ret[op] == NEVER;
    }

    public int functionOf(int op) {
        return function[kind[op]];
    }

    /** The op with this number in the history; negative when it is not here. */
    public int opOf(int numberInHistory) {
        return Arrays.binarySearch(number, numberInHistory);
    }

    public long[] argumentsOf(int op) {
        return arguments[kind[op]];
    }
}
