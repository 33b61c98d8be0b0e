package stormproof.model;

/** A sequential specification. One small class each; {@code Models} knows them by name. */
public interface Model {
    /** What {@link #part} says of an operation that concerns the whole object. */
    long WHOLE = Long.MIN_VALUE;

    String name();

    /**
     * The part of the object that an operation concerns, where objects consist of parts that don't depend on each other
     * (the elements of a set): as long as no operation concerns the {@link #WHOLE}, each part is an object of its own.
     * An operation that crashed need not have taken effect.
     */
    default long part(int function, long[] arguments, boolean crashed) {
        return WHOLE;
    }

    /**
     * The states of one object.
     *
     * @param init the object's first state, as the packed history gives it; empty: nil
     * @param values what value ids stand for, as JSON texts; the id 0 is nil
     */
    States states(Operations operations, long[] init, String[] values);
}
