package stormproof;

/**
 * What an operation does. The codes are part of the packed format (see {@link Packed}) and stand in the same order in
 * {@code checkers/linearizable/packing.py}; the arguments of each are listed per model in {@code docs/linearizability.md}.
 */
final class Function {
    static final int READ = 0; // [value]; a set: the elements; replica-info: [epoch, members...]
    static final int WRITE = 1; // [value]
    static final int CAS = 2; // [expected, new]; replica-info: [expected epoch, new epoch, members...]
    static final int CAS_FAILED = 3; // [expected, new]: an observation, the state was not the expected one
    static final int APPEND = 4; // [value]
    static final int DELETE = 5; // []
    static final int ACQUIRE = 6; // mutex: []; fenced-lock: [process, token]
    static final int RELEASE = 7; // mutex: []; fenced-lock: [process, token]
    static final int ADD = 8; // set: [element, changed]; counter: [amount]
    static final int REMOVE = 9; // [element, changed]
    static final int CONTAINS = 10; // [element, 0 or 1]
    static final int ENQUEUE = 11; // [value]
    static final int DEQUEUE = 12; // [value], nil: the queue was empty
    static final int TXN = 13; // triples [READ or WRITE, key, value]

    /** No function of any model: all that is known about such an operation are its steps from state to state. */
    static final int OPAQUE = -1;

    /** An argument that nobody knows: the result of a crashed operation, the token of a crashed acquire. */
    static final long UNKNOWN = Long.MIN_VALUE;
    /** The id of the value nil in every table of values. */
    static final long NIL = 0;

    /** Whether an operation of this kind can change no state: when it crashed, it tells nothing. */
    static boolean observes(int function) {
        return function == READ || function == CONTAINS || function == CAS_FAILED;
    }

    private Function() {}
}
