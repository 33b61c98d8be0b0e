package stormproof;

import java.util.List;

/** A sequential specification. One small class each; {@code Models} knows them by name. */
interface Model {
    String name();

    /**
     * The states of one object.
     *
     * @param init the object's first state, as the packed history gives it; empty: nil
     * @param values what value ids stand for, as JSON texts; the id 0 is nil
     */
    States states(Operations operations, long[] init, String[] values);

    /** Decisions that need no search, the cheapest first. */
    default List<Shortcut> shortcuts() {
        return List.of();
    }
}
