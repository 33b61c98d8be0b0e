package stormproof.model;

/**
 * The states of one object, as far as a search has reached them: small dense numbers, so that a configuration is a few
 * words and a transition one table look-up. Equal states have equal numbers. Not for use by several threads.
 */
public interface States {
    /** A transition that the model forbids. */
    int ILLEGAL = -1;

    int initial();

    /** The state after an operation of this kind in that state, or {@link #ILLEGAL}. The same answer each time. */
    int step(int state, int kind);

    /** For people: the state's content. */
    String describe(int state);

    /** About how much memory the states take. */
    long bytes();
}
