package stormproof.model;

/**
 * What an operation does. The codes are part of the packed format and stand in the same order in
 * {@code checkers/linearizable/history.py}, with the arguments of each.
 */
public final class Function {
    public static final int READ = 0; // [value]; a set: the elements; replica-info: [epoch, members...]
    public static final int WRITE = 1; // [value]
    public static final int CAS = 2; // [expected, new]; replica-info: [expected epoch, new epoch, members...]
    public static final int CAS_FAILED = 3; // [expected, new]: an observation, the state was not the expected one
    public static final int APPEND = 4; // [value]
    public static final int DELETE = 5; // []
    public static final int ACQUIRE = 6; // mutex: []; fenced-lock: [process, token]
    public static final int RELEASE = 7; // mutex: []; fenced-lock: [process, token]
    public static final int ADD = 8; // set: [element, changed]; counter: [amount]
    public static final int REMOVE = 9; // [element, changed]
    public static final int CONTAINS = 10; // [element, 0 or 1]
    public static final int ENQUEUE = 11; // [value]
    public static final int DEQUEUE = 12; // [value], nil: the queue was empty; unordered-queue: also [value, drain]
    public static final int TXN = 13; // triples [READ or WRITE, key, value]
    public static final int DRAINED = 14; // [drain]: it found the queue empty and takes nothing any more

    /** No function of any model: all that is known about such an operation are its steps from state to state. */
    public static final int OPAQUE = -1;

    /** An argument that nobody knows: the result of a crashed operation, the token of a crashed acquire. */
    public static final long UNKNOWN = Long.MIN_VALUE;
    /** The id of the value nil in every table of values. */
    public static final long NIL = 0;

    /** Whether an operation of this kind can change no state: when it crashed, it tells nothing. */
    public static boolean observes(int function) {
        return function == READ || function == CONTAINS || function == CAS_FAILED;
    }

    private Function() {}
}
