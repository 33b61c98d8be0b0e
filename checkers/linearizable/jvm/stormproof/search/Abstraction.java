package stormproof.search;

import java.util.Arrays;

/**
 * Which classes of crashed ops a search counts. Counts multiply the configurations, and most of them decide nothing. A
 * search that goes on for long therefore begins anew as if every crashed op, once called, could take effect any number
 * of times: what cannot be linearized even so is a violation. A linearization so found may use some class more often,
 * or earlier, than its ops allow; then these classes are counted from now on and the search begins anew (abstraction
 * refinement after counterexamples; Clarke, Grumberg, Jha, Lu and Veith, CAV 2000).
 *
 * <p>Neither way is always better: there may be states without end when an addition can be repeated at will. So the
 * search changes between the two, each time for four times as many configurations, and loses a third at most.
 *
 * <p>Of a class that is not counted, a configuration still notes how often it was used on the way to it, but is not
 * told apart by it; one more than there are ops says that it was used beyond its means.
 */
final class Abstraction {
    /** Configurations before a search begins anew for the first time: most histories need fewer. */
    static final long EXACT_FIRST = 2_000;
    private static final int GROWTH = 4;
    /** Spurious linearizations before everything is counted for good. */
    private static final int MOST_ROUNDS = 16;

    private final Window window;
    /** By class: whether it is counted even when as little as possible is. */
    private final boolean[] needed;
    private boolean all = true;
    private int rounds;
    private long turn;
    private long until;

    Abstraction(Window window, long exactFirst) {
        this.window = window;
        needed = new boolean[window.classes];
        turn = exactFirst;
        until = exactFirst;
    }

    boolean counts(int cls) {
        return all || needed[cls];
    }

    Layout layout() {
        boolean[] counted = needed.clone();
        if (all) {
            Arrays.fill(counted, true);
        }
        return new Layout(window, counted);
    }

    /** Whether it is time to {@link #change}, after so many configurations in all. */
    boolean due(long configurations) {
        return configurations >= until && window.classes > 0 && rounds <= MOST_ROUNDS;
    }

    /** Count everything, or as little as possible from now on; the search must begin anew with another layout. */
    void change(long configurations) {
        all = !all;
        turn *= GROWTH;
        until = configurations + turn;
    }

    /**
     * After a linearization that no history allows: count the classes that it used beyond their means. The search must
     * begin anew with another layout.
     */
    void refine(Layout layout, long[] key) {
        all = ++rounds > MOST_ROUNDS;
        for (int c = 0; c < needed.length; c++) {
            needed[c] |= layout.overused(key, c);
        }
    }

    /** Whether no class was used beyond its means on the way to the configuration. */
    boolean lawful(Layout layout, long[] key) {
        for (int c = 0; c < needed.length; c++) {
            if (!counts(c) && layout.overused(key, c)) {
                return false;
            }
        }
        return true;
    }
}
