package stormproof.search;

import java.util.Arrays;

/**
 * The ends of the longest branches of a search. The returns passed decide, as they tell how long a prefix of the
 * history is linearizable; among equals the completed ops placed.
 */
final class Ends {
    private final int most;
    private final Search.Furthest[] kept;
    private final int[] placed;
    private int count;
    private int level = -1;

    Ends(int most) {
        this.most = most;
        kept = new Search.Furthest[most];
        placed = new int[most];
    }

    /** Whether an end at this level, with so many completed ops placed, belongs to the best so far. */
    boolean wants(int endLevel, int endPlaced) {
        return endLevel > level || endLevel == level && (count < most || endPlaced > placed[count - 1]);
    }

    /** Keep an end that is wanted, unless it is kept already: a search that began anew may come to it again. */
    void note(int endLevel, int endPlaced, Search.Furthest end) {
        if (endLevel > level) {
            level = endLevel;
            count = 0;
        }
        for (int i = 0; i < count; i++) {
            if (Arrays.equals(kept[i].order(), end.order())) {
                return;
            }
        }
        int at = count < most ? count++ : most - 1;
        while (at > 0 && placed[at - 1] < endPlaced) {
            kept[at] = kept[at - 1];
            placed[at] = placed[at - 1];
            at--;
        }
        kept[at] = end;
        placed[at] = endPlaced;
    }

    /** The returns that the best pass; -1 when there is none. */
    int level() {
        return level;
    }

    /** The best first. */
    Search.Furthest[] best(int limit) {
        return Arrays.copyOf(kept, Math.min(limit, count));
    }
}
