package stormproof.model;

import java.util.Arrays;
import java.util.StringJoiner;
import stormproof.util.LongInterner;

/**
 * A queue: ENQUEUE [v] at the end, DEQUEUE [v] from the front; DEQUEUE [nil] saw it empty, [unknown] took what there
 * was.
 */
final class FifoQueueModel implements Model {
    @Override
    public String name() {
        return "fifo-queue";
    }

    @Override
    public States states(Operations operations, long[] init, String[] values) {
        return new Queues(operations, init, values);
    }

    /**
     * A state is a stretch of a path in the tree of all enqueue sequences: from the node of the last value taken
     * (exclusive) to that of the last value put in. A step adds a node or moves the beginning, whatever the length; the
     * front is found by the tree's skip pointers (Myers, An applicative random-access stack, 1983). Equal contents on
     * different paths are found by a rolling hash and then compared value by value.
     */
    private static final class Queues extends Transitions {
        private static final long BASE = 0x9e3779b97f4a7c15L;
        private static final int ROOT = 0;

        private final Operations operations;
        private final String[] values;
        private final LongInterner places = new LongInterner(); // of values
        // Of parent * values + value; an edge's place + 1 is its node.
        private final LongInterner edges = new LongInterner();
        private long width; // how many values there are

        // By node.
        private int[] depth = new int[16];
        private int[] skip = new int[16];
        private long[] prefix = new long[16];
        // By state.
        private int[] head = new int[16];
        private int[] tail = new int[16];
        private long[] hash = new long[16];
        private int size;

        private int[] table = new int[32]; // state + 1; 0: free
        private long[] power = {1};

        Queues(Operations operations, long[] init, String[] values) {
            super(operations.kinds);
            this.operations = operations;
            this.values = values;
            for (long value : init) {
                places.place(value);
            }
            for (int kind = 0; kind < operations.kinds; kind++) {
                places.place(operations.arguments[kind][0]);
            }
            width = places.size();
            int last = ROOT;
            for (long value : init) {
                last = child(last, places.find(value));
            }
            state(ROOT, last);
        }

        @Override
        public int initial() {
            return 0;
        }

        @Override
        protected int compute(int state, int kind) {
            long value = operations.arguments[kind][0];
            boolean empty = head[state] == tail[state];
            switch (operations.function[kind]) {
                case Function.ENQUEUE:
                    return state(head[state], child(tail[state], places.find(value)));
                case Function.DEQUEUE:
                    if (empty) {
                        return value == Function.NIL || value == Function.UNKNOWN ? state : ILLEGAL;
                    }
                    int front = ancestor(tail[state], depth[head[state]] + 1);
                    boolean taken = value == Function.UNKNOWN || value != Function.NIL && valueOf(front) == value;
                    return taken ? state(front, tail[state]) : ILLEGAL;
                default:
                    throw Models.noSuch(operations.function[kind], "a queue");
            }
        }

        private long valueOf(int node) {
            return places.at((int) (edges.at(node - 1) % width));
        }

        private int parent(int node) {
            return (int) (edges.at(node - 1) / width);
        }

        private int child(int parent, int place) {
            int node = edges.place(parent * width + place) + 1;
            if (node == edges.size() && (node >= depth.length || depth[node] == 0)) {
                if (node == depth.length) {
                    depth = Arrays.copyOf(depth, 2 * node);
                    skip = Arrays.copyOf(skip, 2 * node);
                    prefix = Arrays.copyOf(prefix, 2 * node);
                }
                depth[node] = depth[parent] + 1;
                prefix[node] = prefix[parent] * BASE + LongInterner.mix(place + 1);
                int far = skip[parent];
                boolean equalJumps = depth[parent] - depth[far] == depth[far] - depth[skip[far]];
                skip[node] = equalJumps ? skip[far] : parent;
            }
            return node;
        }

        private int ancestor(int node, int wanted) {
            int at = node;
            while (depth[at] > wanted) {
                at = depth[skip[at]] >= wanted ? skip[at] : parent(at);
            }
            return at;
        }

        private int state(int from, int to) {
            if (from == to && from != ROOT) {
                return state(ROOT, ROOT);
            }
            int length = depth[to] - depth[from];
            long content = prefix[to] - prefix[from] * power(length);
            int slot = slot(content, from, to);
            if (table[slot] != 0) {
                return table[slot] - 1;
            }
            if (2 * (size + 1) > table.length) {
                grow();
                slot = slot(content, from, to);
            }
            if (size == head.length) {
                head = Arrays.copyOf(head, 2 * size);
                tail = Arrays.copyOf(tail, 2 * size);
                hash = Arrays.copyOf(hash, 2 * size);
            }
            head[size] = from;
            tail[size] = to;
            hash[size] = content;
            table[slot] = ++size;
            return size - 1;
        }

        private long power(int exponent) {
            if (exponent >= power.length) {
                int known = power.length;
                power = Arrays.copyOf(power, 2 * exponent + 1);
                for (int i = known; i < power.length; i++) {
                    power[i] = power[i - 1] * BASE;
                }
            }
            return power[exponent];
        }

        private int slot(long content, int from, int to) {
            int mask = table.length - 1;
            int slot = (int) LongInterner.mix(content) & mask;
            while (table[slot] != 0 && !same(table[slot] - 1, content, from, to)) {
                slot = (slot + 1) & mask;
            }
            return slot;
        }

        private boolean same(int state, long content, int from, int to) {
            int length = depth[to] - depth[from];
            if (hash[state] != content || depth[tail[state]] - depth[head[state]] != length) {
                return false;
            }
            int mine = tail[state];
            int other = to;
            for (int left = length; left > 0 && mine != other; left--) {
                if (valueOf(mine) != valueOf(other)) {
                    return false;
                }
                mine = parent(mine);
                other = parent(other);
            }
            return true;
        }

        private void grow() {
            table = new int[2 * table.length];
            for (int i = 0; i < size; i++) {
                table[slot(hash[i], head[i], tail[i])] = i + 1;
            }
        }

        @Override
        public String describe(int state) {
            StringJoiner all = new StringJoiner(", ", "[", "]");
            for (int at = depth[head[state]] + 1; at <= depth[tail[state]]; at++) {
                all.add(Models.text(values, valueOf(ancestor(tail[state], at))));
            }
            return all.toString();
        }

        @Override
        protected long contentBytes() {
            return places.bytes() + edges.bytes() + 16L * depth.length + 16L * head.length + 4L * table.length
                    + 8L * power.length;
        }
    }
}
