package stormproof.polynomial;

import java.util.Arrays;
import stormproof.util.LongInterner;

/** A set of texts, as a tree of characters: finds which of them stands at a place of a longer text. */
final class Fragments {
    static final int NONE = -1;
    static final int SEVERAL = -2;

    private final LongInterner edges = new LongInterner(); // node and character; an edge's place + 1 is its node
    private int[] text = {NONE}; // by node: the text that ends there

    /** Add a text under a number; false when it is empty or there already. */
    boolean add(String content, int number) {
        int node = 0;
        for (int i = 0; i < content.length(); i++) {
            node = edges.place((long) node << 16 | content.charAt(i)) + 1;
            if (node >= text.length) {
                int known = text.length;
                text = Arrays.copyOf(text, 2 * node);
                Arrays.fill(text, known, text.length, NONE);
            }
        }
        if (node == 0 || text[node] != NONE) {
            return false;
        }
        text[node] = number;
        return true;
    }

    /** The number of this text, {@link #NONE} if it is not there. */
    int number(String content) {
        int node = 0;
        for (int i = 0; i < content.length() && node != NONE; i++) {
            node = follow(node, content.charAt(i));
        }
        return node == NONE ? NONE : text[node];
    }

    /** The number of the one text that stands at a place; {@link #NONE}, {@link #SEVERAL}. */
    int at(String content, int place) {
        int found = NONE;
        int node = 0;
        for (int i = place; i < content.length(); i++) {
            node = follow(node, content.charAt(i));
            if (node == NONE) {
                return found;
            }
            if (text[node] != NONE) {
                found = found == NONE ? text[node] : SEVERAL;
            }
        }
        return found;
    }

    private int follow(int node, char next) {
        int place = edges.find((long) node << 16 | next);
        return place == LongInterner.ABSENT ? NONE : place + 1;
    }
}
