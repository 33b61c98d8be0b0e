package stormproof.model;

import java.util.Arrays;
import stormproof.util.LongInterner;

/**
 * One key of a map: READ [v] gets it, WRITE [v] puts it, APPEND [v] joins a string to what is there (nothing counts as
 * the empty string), DELETE removes it. A map whose absent keys read as "" starts with "": there, nil and "" are one.
 */
public final class KvModel implements Model {
    public static final String EMPTY = "\"\"";

    @Override
    public String name() {
        return "kv";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Texts(operations, init, values);
    }

    /** Whether absent keys read as "". */
    public static boolean absentIsEmpty(long[] init, String[] values) {
        return init.length > 0 && values[(int) init[0]].equals(EMPTY);
    }

    /** A JSON string without its quotes; joined, escaped texts stay what they mean. Other values: their text. */
    public static String inner(String json) {
        return isString(json) ? json.substring(1, json.length() - 1) : json;
    }

    public static boolean isString(String json) {
        return json.startsWith("\"");
    }

    /**
     * A state is a text in pieces, a tree of appends, so that an append copies nothing; equal texts in different pieces
     * are found by a rolling hash and then compared character by character. Values that are no strings are apart.
     */
    private static final class Texts extends Transitions {
        private static final long BASE = 0x9e3779b97f4a7c15L;
        private static final int NONE = -1;

        private final Operations operations;
        private final int[] target; // of READ, WRITE and DELETE, by kind
        private final String[] piece; // of APPEND, by kind
        private final long[] pieceHash;
        private final long[] piecePower;

        // By state.
        private String[] last = new String[16];
        private int[] before = new int[16];
        private int[] length = new int[16];
        private long[] hash = new long[16];
        private boolean[] string = new boolean[16];
        private int size;
        private long textBytes;

        private int[] table = new int[32]; // state + 1; 0: free

        Texts(Operations operations, long[] init, String[] values) {
            super(operations.kinds);
            this.operations = operations;
            boolean absentIsEmpty = absentIsEmpty(init, values);
            value(init.length == 0 ? values[0] : values[(int) init[0]]);
            target = new int[operations.kinds];
            piece = new String[operations.kinds];
            pieceHash = new long[operations.kinds];
            piecePower = new long[operations.kinds];
            for (int kind = 0; kind < operations.kinds; kind++) {
                int function = operations.function[kind];
                String text = function == Function.DELETE ? values[0] : values[(int) operations.arguments[kind][0]];
                if (function == Function.APPEND) {
                    piece[kind] = inner(text);
                    pieceHash[kind] = hash(piece[kind]);
                    piecePower[kind] = power(piece[kind].length());
                } else {
                    target[kind] = value(text.equals(values[0]) && absentIsEmpty ? EMPTY : text);
                }
            }
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        protected int compute(int state, int kind) {
            return switch (operations.function[kind]) {
                case Function.READ -> state == target[kind] ? state : ILLEGAL;
                case Function.WRITE, Function.DELETE -> target[kind];
                case Function.APPEND -> append(state, kind);
                default -> throw Models.noSuch(operations.function[kind], "a map");
            };
        }

        private int value(String json) {
            return state(inner(json), NONE, hash(inner(json)), isString(json));
        }

        private int append(int state, int kind) {
            if (length[state] == 0 || !string[state] && last[state].equals("null")) {
                return state(piece[kind], NONE, pieceHash[kind], true);
            }
            if (piece[kind].isEmpty() && string[state]) {
                return state;
            }
            return state(piece[kind], state, hash[state] * piecePower[kind] + pieceHash[kind], true);
        }

        private static long hash(String text) {
            long hash = 0;
            for (int i = 0; i < text.length(); i++) {
                hash = hash * BASE + text.charAt(i) + 1;
            }
            return hash;
        }

        private static long power(int exponent) {
            long power = 1;
            for (int i = 0; i < exponent; i++) {
                power *= BASE;
            }
            return power;
        }

        private int state(String text, int parent, long content, boolean isString) {
            int total = text.length() + (parent == NONE ? 0 : length[parent]);
            int slot = slot(text, parent, total, content, isString);
            if (table[slot] != 0) {
                return table[slot] - 1;
            }
            if (2 * (size + 1) > table.length) {
                grow();
                slot = slot(text, parent, total, content, isString);
            }
            if (size == last.length) {
                last = Arrays.copyOf(last, 2 * size);
                before = Arrays.copyOf(before, 2 * size);
                length = Arrays.copyOf(length, 2 * size);
                hash = Arrays.copyOf(hash, 2 * size);
                string = Arrays.copyOf(string, 2 * size);
            }
            last[size] = text;
            before[size] = parent;
            length[size] = total;
            hash[size] = content;
            string[size] = isString;
            textBytes += parent == NONE ? 2L * total : 0;
            table[slot] = ++size;
            return size - 1;
        }

        private int slot(String text, int parent, int total, long content, boolean isString) {
            int mask = table.length - 1;
            int slot = (int) LongInterner.mix(content) & mask;
            while (table[slot] != 0) {
                int found = table[slot] - 1;
                if (hash[found] == content && length[found] == total && string[found] == isString
                        && same(found, text, parent)) {
                    break;
                }
                slot = (slot + 1) & mask;
            }
            return slot;
        }

        /** Whether the state's text is that of {@code parent} and {@code text}; both are of one length. */
        private boolean same(int state, String text, int parent) {
            int mine = state;
            int other = parent;
            String left = last[mine];
            String right = text;
            int leftEnd = left.length();
            int rightEnd = right.length();
            while (true) {
                int common = Math.min(leftEnd, rightEnd);
                if (!left.regionMatches(leftEnd - common, right, rightEnd - common, common)) {
                    return false;
                }
                leftEnd -= common;
                rightEnd -= common;
                if (leftEnd == 0) {
                    mine = before[mine];
                    if (mine == NONE || mine == other && rightEnd == 0) {
                        return true;
                    }
                    left = last[mine];
                    leftEnd = left.length();
                }
                if (rightEnd == 0) {
                    if (other == NONE) {
                        return true;
                    }
                    right = last[other];
                    rightEnd = right.length();
                    other = before[other];
                }
            }
        }

        private void grow() {
            table = new int[2 * table.length];
            for (int i = 0; i < size; i++) {
                table[slot(last[i], before[i], length[i], hash[i], string[i])] = i + 1;
            }
        }

        @Override
        public String describe(int state) {
            StringBuilder text = new StringBuilder();
            for (int at = state; at != NONE; at = before[at]) {
                text.insert(0, last[at]);
            }
            return string[state] ? "\"" + text + "\"" : text.toString();
        }

        @Override
        protected long contentBytes() {
            return 33L * last.length + 4L * table.length + textBytes;
        }
    }
}
