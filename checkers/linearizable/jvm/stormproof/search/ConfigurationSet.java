package stormproof.search;

import java.util.Arrays;
import stormproof.util.Budget;
import stormproof.util.LongInterner;

/**
 * Configurations seen, kept exactly, in the order in which they came. A configuration is dominated by one that is equal
 * but for its counts of crashed ops and has none of these larger: whatever completes the former completes the latter
 * too, as there are at least as many crashed ops left, each called no later. So the set refuses what one of its members
 * dominates, and drops members that a newcomer dominates.
 *
 * <p>Members that differ in their counts alone form a list behind one place of an open-addressing table. Only the first
 * {@link #SCAN} of a list are compared; an exact duplicate behind those is found in a second table, which is made when
 * it is first needed.
 */
final class ConfigurationSet {
    static final int KNOWN = -1;
    static final int REFUSED = -2;

    private static final int SCAN = 48;
    private static final int FIRST_CAPACITY = 16;
    private static final int MOST_WORDS = 1 << 30;
    private static final int END = -1;
    private static final int DROPPED = -2;
    private static final int LESS = 1;
    private static final int MORE = 2;

    private final Budget budget;
    private final int words;
    private final long[] exact;
    private final long[] compared;
    private final long[] spare;
    private final boolean counts;

    private long[] keys = {};
    /** The next member of the list, or END, or DROPPED. Only with counts. */
    private int[] next = {};
    private int size;
    /** First members of the lists, plus one; 0 is free. Without counts: each member. */
    private int[] heads = {};
    /** Members by their whole content, plus one; empty until a list gets too long. */
    private int[] members = {};

    private ConfigurationSet(int words, Layout layout, Budget budget) {
        this.words = words;
        this.budget = budget;
        counts = layout.counts;
        exact = Arrays.copyOf(layout.exact, words);
        compared = Arrays.copyOf(layout.compared, words);
        spare = Arrays.copyOf(layout.spare, words);
        Arrays.fill(exact, layout.words, words, -1L);
    }

    static ConfigurationSet ofBases(Layout layout, Budget budget) {
        return new ConfigurationSet(layout.words, layout, budget);
    }

    /**
     * Configurations inside chains of crashed ops: one word more, which must be equal (see {@link SuccessorGenerator}).
     */
    static ConfigurationSet ofChains(Layout layout, Budget budget) {
        return new ConfigurationSet(layout.words + 1, layout, budget);
    }

    int size() {
        return size;
    }

    /** Whether the member is still there, not dropped for a better one. */
    boolean has(int member) {
        return !counts || next[member] != DROPPED;
    }

    void copyTo(int member, long[] key) {
        System.arraycopy(keys, member * words, key, 0, words);
    }

    /** The first word of a member. */
    long firstWord(int member) {
        return keys[member * words];
    }

    /** Add a configuration: its number, counted up from 0, or KNOWN, or REFUSED when the budget refused to grow. */
    int add(long[] key) {
        if (2 * (size + 1) > heads.length && !grow()) {
            return REFUSED;
        }
        int at = listOf(key);
        if (heads[at] != 0) {
            if (!counts) {
                return KNOWN;
            }
            int verdict = scan(at, key);
            if (verdict != 0) {
                return verdict;
            }
        }
        System.arraycopy(key, 0, keys, size * words, words);
        if (counts) {
            next[size] = heads[at] == 0 ? END : heads[at] - 1;
            if (members.length > 0) {
                members[placeOf(key)] = size + 1;
            }
        }
        heads[at] = size + 1;
        return size++;
    }

    /** Compare with the list: KNOWN or REFUSED, or 0 when the key is new. */
    private int scan(int at, long[] key) {
        int before = END;
        int member = heads[at] - 1;
        int scanned = 0;
        while (member != END) {
            if (++scanned > SCAN) {
                if (members.length == 0 && !makeMembers()) {
                    return REFUSED;
                }
                return members[placeOf(key)] != 0 ? KNOWN : 0;
            }
            int following = next[member];
            int relation = compare(member, key);
            if (relation == LESS) {
                return KNOWN;
            }
            if (relation == MORE) {
                next[member] = DROPPED;
                if (before == END) {
                    heads[at] = following + 1; // 0 when it was alone; the newcomer takes the place at once
                } else {
                    next[before] = following;
                }
            } else {
                before = member;
            }
            member = following;
        }
        return 0;
    }

    /** LESS: no count of the member is larger. MORE: none is smaller. */
    private int compare(int member, long[] key) {
        int base = member * words;
        int relation = LESS | MORE;
        for (int w = 1; w < words && relation != 0; w++) {
            long guard = spare[w];
            if (guard != 0) {
                long mine = keys[base + w] & compared[w];
                long other = key[w] & compared[w];
                if (((other | guard) - mine & guard) != guard) {
                    relation &= ~LESS;
                }
                if (((mine | guard) - other & guard) != guard) {
                    relation &= ~MORE;
                }
            }
        }
        return (relation & LESS) != 0 ? LESS : relation;
    }

    private boolean equal(int member, long[] key) {
        int base = member * words;
        for (int w = 0; w < words; w++) {
            if (((keys[base + w] ^ key[w]) & exact[w]) != 0) {
                return false;
            }
        }
        return true;
    }

    private long hash(long[] key, boolean withoutCounts) {
        long hash = 0;
        for (int w = 0; w < words; w++) {
            hash = LongInterner.mix(hash ^ (key[w] & (withoutCounts ? exact[w] : exact[w] | compared[w]))) + w;
        }
        return hash;
    }

    /** The place in {@code members} where the key is or would be. */
    private int placeOf(long[] key) {
        int mask = members.length - 1;
        int at = (int) hash(key, false) & mask;
        while (members[at] != 0 && !identical((members[at] - 1) * words, key)) {
            at = at + 1 & mask;
        }
        return at;
    }

    private boolean identical(int base, long[] key) {
        for (int w = 0; w < words; w++) {
            if (((keys[base + w] ^ key[w]) & (exact[w] | compared[w])) != 0) {
                return false;
            }
        }
        return true;
    }

    private boolean makeMembers() {
        if (!budget.take(4L * heads.length)) {
            return false;
        }
        fillMembers(heads.length);
        return true;
    }

    private void fillMembers(int capacity) {
        members = new int[capacity];
        long[] key = new long[words];
        for (int member = 0; member < size; member++) {
            copyTo(member, key);
            members[placeOf(key)] = member + 1;
        }
    }

    private long bytes(long capacity) {
        return capacity * (8L * words + (counts ? 4 : 0) + 8 + (members.length > 0 ? 8 : 0));
    }

    private int capacity() {
        return heads.length / 2;
    }

    private boolean grow() {
        long wanted = Math.max(FIRST_CAPACITY, 2L * capacity());
        if (wanted * Math.max(words, 2) > MOST_WORDS || !budget.take(bytes(wanted))) {
            return false;
        }
        long before = bytes(capacity());
        keys = Arrays.copyOf(keys, (int) wanted * words);
        if (counts) {
            next = Arrays.copyOf(next, (int) wanted);
        }
        heads = new int[2 * (int) wanted];
        relink();
        if (members.length > 0) {
            fillMembers(heads.length);
        }
        budget.giveBack(before);
        return true;
    }

    /** Fill the table anew; the latest member comes first in its list, as before. */
    private void relink() {
        long[] key = new long[words];
        for (int member = 0; member < size; member++) {
            if (has(member)) {
                copyTo(member, key);
                int at = listOf(key);
                if (counts) {
                    next[member] = heads[at] == 0 ? END : heads[at] - 1;
                }
                heads[at] = member + 1;
            }
        }
    }

    /** The place in {@code heads} of the key's list, or where it would be. */
    private int listOf(long[] key) {
        int mask = heads.length - 1;
        int at = (int) hash(key, true) & mask;
        while (heads[at] != 0 && !equal(heads[at] - 1, key)) {
            at = at + 1 & mask;
        }
        return at;
    }

    /** Forget all members; the memory stays unless it is far more than they needed. */
    void forget() {
        if (heads.length > 8 * FIRST_CAPACITY && 16L * size < heads.length) {
            close();
            return;
        }
        size = 0;
        Arrays.fill(heads, 0);
        Arrays.fill(members, 0);
    }

    void close() {
        budget.giveBack(bytes(capacity()));
        keys = new long[0];
        next = new int[0];
        heads = new int[0];
        members = new int[0];
        size = 0;
    }
}
