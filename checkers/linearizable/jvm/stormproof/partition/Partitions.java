package stormproof.partition;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stormproof.model.Function;
import stormproof.model.History;
import stormproof.model.Model;
import stormproof.model.Operations;

/**
 * Splits a history into objects that can be judged one by one: it is linearizable exactly when each of them is (Herlihy
 * and Wing 1990, locality; Horn and Kroening 2015, P-compositionality).
 *
 * <p>What restricts nothing is left out: crashed operations that only observe, and completed ones that observed a value
 * which nobody knows.
 */
public final class Partitions {
    private static final int LAST_EVENT = Operations.NEVER - 2;

    private final History history;
    private final Model model;
    /** The history's operations, those of one key together, in the order of their calls. */
    private final int[] members;
    private final KindTable kinds = new KindTable();

    private Partitions(History history, Model model) {
        this.history = history;
        this.model = model;
        this.members = new int[history.operations()];
    }

    /**
     * The partitions of a history, keys in the order of their first operations.
     *
     * @throws IllegalArgumentException when the history contradicts itself
     */
    public static List<Partition> of(History history, Model model) {
        validate(history);
        Signatures.check(history);
        return new Partitions(history, model).split();
    }

    private List<Partition> split() {
        int count = history.operations();
        int[] rank = new int[history.keys().length + 1]; // by key + 1: its place in order of appearance, from 1
        int[] size = new int[rank.length + 1]; // by rank
        int keys = 0;
        for (int op = 0; op < count; op++) {
            int key = history.key()[op] + 1;
            if (rank[key] == 0) {
                rank[key] = ++keys;
            }
            size[rank[key]]++;
        }
        int[] end = new int[keys + 1];
        for (int i = 1; i <= keys; i++) {
            end[i] = end[i - 1] + size[i];
        }
        int[] next = Arrays.copyOf(end, keys);
        for (int op = 0; op < count; op++) {
            members[next[rank[history.key()[op] + 1] - 1]++] = op;
        }
        List<Partition> partitions = new ArrayList<>(keys);
        for (int i = 0; i < keys; i++) {
            addKey(partitions, end[i], end[i + 1]);
        }
        return partitions;
    }

    /** The members from..to, all of one key. */
    private void addKey(List<Partition> partitions, int from, int to) {
        int key = history.key()[members[from]];
        Operations whole = operations(from, to);
        for (Operations part : Parts.of(whole, model)) {
            partitions.add(new Partition(key < 0 ? null : history.keys()[key], whole, part));
        }
    }

    private Operations operations(int from, int to) {
        int[] number = new int[to - from];
        int count = 0;
        for (int i = from; i < to; i++) {
            if (!tellsNothing(members[i])) {
                number[count++] = members[i];
            }
        }
        number = Arrays.copyOf(number, count);
        int[] call = new int[count];
        int[] ret = new int[count];
        int[] kind = new int[count];
        kinds.clear();
        for (int i = 0; i < count; i++) {
            int op = number[i];
            call[i] = history.call()[op];
            ret[i] = history.ret()[op] < 0 ? Operations.NEVER : history.ret()[op];
            kind[i] = kinds.of(history, op);
        }
        return new Operations(number, call, ret, kind, kinds.functions(), kinds.arguments());
    }

    private boolean tellsNothing(int op) {
        int function = history.function()[op];
        long[] all = history.arguments();
        int from = history.start()[op];
        int to = history.start()[op + 1];
        if (function == Function.TXN) {
            for (int i = from; i + 2 < to; i += 3) {
                if (all[i] != Function.READ || (history.ret()[op] >= 0 && all[i + 2] != Function.UNKNOWN)) {
                    return false;
                }
            }
            return true;
        }
        if (!Function.observes(function)) {
            return false;
        }
        if (history.ret()[op] < 0) {
            return true;
        }
        int told = function == Function.CONTAINS ? from + 1 : from;
        return told < to && all[told] == Function.UNKNOWN;
    }

    private static void validate(History history) {
        int count = history.operations();
        int[] start = history.start();
        if (history.values().length == 0 || start[0] != 0 || start[count] != history.arguments().length) {
            throw damaged(history, "its tables don't fit together");
        }
        for (int op = 0; op < count; op++) {
            int call = history.call()[op];
            int ret = history.ret()[op];
            if (start[op + 1] < start[op]) {
                throw damaged(history, "operation " + op + " has arguments that end before they begin");
            }
            if (history.key()[op] < -1 || history.key()[op] >= history.keys().length) {
                throw damaged(history, "operation " + op + " has a key that is not in the table");
            }
            if (call < 0 || (op > 0 && call <= history.call()[op - 1]) || call > LAST_EVENT) {
                throw damaged(history, "operation " + op + " is not called after the one before it");
            }
            if (ret < -1 || (ret >= 0 && ret <= call) || ret > LAST_EVENT) {
                throw damaged(history, "operation " + op + " returns before it is called");
            }
        }
    }

    private static IllegalArgumentException damaged(History history, String how) {
        return new IllegalArgumentException("history " + history.id() + " is damaged: " + how);
    }
}
