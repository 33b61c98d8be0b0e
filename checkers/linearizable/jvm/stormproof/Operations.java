package stormproof;

import java.util.Arrays;

/**
 * The operations on one object, in the order of their calls: one partition of a history (Herlihy and Wing, locality;
 * Horn and Kroening, P-compositionality). Columns, not objects. Positions in it are called <em>ops</em>.
 *
 * <p>Crashed operations that observe only, and completed reads of an unknown value, are not here: they restrict
 * nothing.
 */
final class Operations {
    /** The return of an operation that crashed: it may take effect at any time after its call, or never. */
    static final int NEVER = Integer.MAX_VALUE;

    final int count;
    /** The operation's number in the history. */
    final int[] number;
    /** Positions of the events in the history; distinct, calls ascending. */
    final int[] call;
    final int[] ret;
    /**
     * Which kind of operation: those of one kind have equal function and arguments, hence equal effect on any state.
     */
    final int[] kind;
    final int kinds;
    /** By kind. */
    final int[] function;
    final long[][] arguments;

    Operations(int[] number, int[] call, int[] ret, int[] kind, int[] function, long[][] arguments) {
        this.count = number.length;
        this.number = number;
        this.call = call;
        this.ret = ret;
        this.kind = kind;
        this.kinds = function.length;
        this.function = function;
        this.arguments = arguments;
    }

    boolean crashed(int op) {
        return ret[op] == NEVER;
    }

    int functionOf(int op) {
        return function[kind[op]];
    }

    /** The op with this number in the history; negative when it is not here. */
    int opOf(int numberInHistory) {
        return Arrays.binarySearch(number, numberInHistory);
    }

    long[] argumentsOf(int op) {
        return arguments[kind[op]];
    }
}
