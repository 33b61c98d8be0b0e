package stormproof;

import java.util.Arrays;

/**
 * A queue with values that come more than once, crashed dequeues and empty answers: a search over the order of the items,
 * not over interleavings. Exact; bounded by {@link #MOST_STEPS}.
 *
 * <p>The order in which items enter a queue is that in which they leave. So an order of items, each with the enqueue that
 * put it in and the dequeue that took it, is all of a linearization: the i-th enqueue takes effect at the latest call
 * among the first i ({@code in}), the i-th dequeue at the latest among the calls of the first i dequeues and that moment
 * ({@code out}). Such an order is one exactly if no operation that is still to be used returned before these moments.
 * An empty answer is an item that is put in and taken out at one moment, at which both must meet. Once all completed
 * dequeues are used, what is left simply stays in the queue.
 *
 * <p>A step of the search uses one item; what it has used lies in two short windows, of enqueues and of dequeues, whatever
 * the queue's length. Less is tried where an exchange shows that it suffices:
 * <ul>
 *   <li>an item that can come next may as well come next, if it occurs at all, for it leaves the moments below all returns
 *       that are still to come (where empty answers are left, the moment of the dequeue, too, must be below those of the
 *       enqueues): so when nothing else can have been taken by this dequeue, there is no other choice;
 *   <li>of enqueues of one value, one that has both an earlier call and an earlier return than another goes first;
 *       dequeues alike; of crashed enqueues of a value, and of the crashed dequeues, the one that was called first;
 *   <li>an empty answer that delays nothing comes at once.
 * </ul>
 */
final class ItemsShortcut implements Shortcut {
    private static final int MOST_STEPS = 2_000_000;
    private static final int STEPS_BETWEEN_LOOKS = 1024; // at the clock
    private static final long BYTES_PER_OPERATION = 512;
    private static final int MOST_WORDS = 16; // of a window
    private static final int NONE = -1;

    private final Model model;

    ItemsShortcut(Model model) {
        this.model = model;
    }

    @Override
    public String name() {
        return "queue-items";
    }

    @Override
    public Decision decide(Operations operations, long[] init, String[] values, Budget budget) {
        for (int words = 1; words <= MOST_WORDS; words *= 4) {
            Budget own = budget.share(budget.limitBytes());
            if (!own.take(4096 + BYTES_PER_OPERATION * operations.count)) {
                return null;
            }
            try {
                Items items = new Items(operations, init, words, own);
                Decision decision = items.applies ? items.search() : null;
                if (decision != null && decision.valid()) {
                    return Replay.passes(operations, model.states(operations, init, values), decision.order())
                            ? decision
                            : null;
                }
                if (decision != null || !items.tooWide) {
                    return decision;
                }
            } finally {
                own.giveBack(own.takenBytes());
            }
        }
        return null;
    }

    /** One object's items. Ops below 0 stand for the items of the first state. */
    private static final class Items {
        private final Operations operations;
        private final int words;
        boolean applies = true;
        boolean tooWide;

        // Completed enqueues and those of the first state, by call; then completed dequeues and empty answers, by call.
        private final int[] enqueues;
        private final int[] dequeues;
        private final int empties;
        private final int[] crashedEnqueues; // by call
        private final int[] crashedDequeues;
        private final int[] enqueueValue;
        private final int[] dequeueValue; // NONE for an empty answer
        private final int[] crashedValue;
        private final int[][] enqueuesOf; // by value: places in enqueues
        private final int[][] crashedOf;
        private final long[] enqueueCall;
        private final long[] enqueueReturn;
        private final long[] dequeueCall;
        private final long[] dequeueReturn;

        // What is used so far.
        private final boolean[] enqueueUsed;
        private final boolean[] dequeueUsed;
        private final boolean[] crashedUsed;
        private int lowEnqueue;
        private int lowDequeue;
        private int dequeuesLeft;
        private int crashedTaken;
        private long in = Long.MIN_VALUE;
        private long out = Long.MIN_VALUE;

        // The item order under trial: by depth.
        private int[] move = new int[64]; // index into moves
        private int[] movesEnd = new int[64];
        private long[] inBefore = new long[64];
        private long[] outBefore = new long[64];
        private int depth;
        private long[] moves = new long[256]; // enqueue place + 1 << 32 | dequeue place + 1, of all depths
        private int moveCount;

        private final Budget budget;
        private final KeySet seen;
        private final long[] key;

        Items(Operations operations, long[] init, int words, Budget budget) {
            this.budget = budget;
            this.operations = operations;
            this.words = words;
            Numbers places = new Numbers();
            int[] put = new int[init.length + operations.count];
            int[] took = new int[operations.count];
            int[] lostPut = new int[operations.count];
            int[] lostTook = new int[operations.count];
            int puts = 0;
            int takes = 0;
            int lostPuts = 0;
            int lostTakes = 0;
            int empty = 0;
            for (int i = 0; i < init.length; i++) {
                places.place(init[i]);
                put[puts++] = i - init.length;
            }
            for (int op = 0; op < operations.count; op++) {
                long value = operations.argumentsOf(op)[0];
                boolean enqueue = operations.functionOf(op) == Function.ENQUEUE;
                if (enqueue) {
                    places.place(value);
                    if (operations.crashed(op)) {
                        lostPut[lostPuts++] = op;
                    } else {
                        put[puts++] = op;
                    }
                    applies &= value != Function.NIL && value != Function.UNKNOWN;
                } else if (operations.crashed(op)) {
                    lostTook[lostTakes++] = op;
                    applies &= value == Function.UNKNOWN;
                } else {
                    took[takes++] = op;
                    empty += value == Function.NIL ? 1 : 0;
                    applies &= value != Function.UNKNOWN;
                }
            }
            applies &= lostPuts <= 64;
            empties = empty;
            enqueues = Arrays.copyOf(put, puts);
            dequeues = Arrays.copyOf(took, takes);
            crashedEnqueues = Arrays.copyOf(lostPut, lostPuts);
            crashedDequeues = Arrays.copyOf(lostTook, lostTakes);
            enqueueCall = new long[puts];
            enqueueReturn = new long[puts];
            enqueueValue = new int[puts];
            for (int i = 0; i < puts; i++) {
                int op = enqueues[i];
                enqueueCall[i] = op < 0 ? 2L * op - 1 : operations.call[op];
                enqueueReturn[i] = op < 0 ? 2L * op : operations.ret[op];
                enqueueValue[i] = places.find(op < 0 ? init[op + init.length] : operations.argumentsOf(op)[0]);
            }
            dequeueCall = new long[takes];
            dequeueReturn = new long[takes];
            dequeueValue = new int[takes];
            for (int i = 0; i < takes; i++) {
                dequeueCall[i] = operations.call[dequeues[i]];
                dequeueReturn[i] = operations.ret[dequeues[i]];
                long value = operations.argumentsOf(dequeues[i])[0];
                dequeueValue[i] = value == Function.NIL ? NONE : places.place(value);
            }
            crashedValue = new int[lostPuts];
            for (int i = 0; i < lostPuts; i++) {
                crashedValue[i] = places.find(operations.argumentsOf(crashedEnqueues[i])[0]);
            }
            enqueuesOf = byValue(enqueueValue, places.size());
            crashedOf = byValue(crashedValue, places.size());
            enqueueUsed = new boolean[puts];
            dequeueUsed = new boolean[takes];
            crashedUsed = new boolean[lostPuts];
            dequeuesLeft = takes;
            key = new long[2 * words + 5];
            seen = new KeySet(key.length, budget);
        }

        private static int[][] byValue(int[] valueOf, int values) {
            int[] count = new int[values];
            for (int value : valueOf) {
                count[value]++;
            }
            int[][] places = new int[values][];
            for (int value = 0; value < values; value++) {
                places[value] = new int[count[value]];
            }
            Arrays.fill(count, 0);
            for (int i = 0; i < valueOf.length; i++) {
                places[valueOf[i]][count[valueOf[i]]++] = i;
            }
            return places;
        }

        Decision search() {
            if (lawful()) {
                if (dequeuesLeft == 0) {
                    return Decision.linearizable(order());
                }
                enter();
            }
            for (int steps = 1; steps < MOST_STEPS && !tooWide && !seen.full; steps++) {
                if (steps % STEPS_BETWEEN_LOOKS == 0 && budget.timeIsUp()) {
                    return null;
                }
                if (depth == 0) {
                    return Decision.violation("no order of the items agrees with what the dequeues returned and when");
                }
                int at = depth - 1;
                if (move[at] == movesEnd[at]) {
                    moveCount = at == 0 ? 0 : movesEnd[at - 1];
                    depth--;
                    if (depth > 0) {
                        takeBack(moves[move[depth - 1]++]);
                    }
                    continue;
                }
                if (use(moves[move[at]])) {
                    if (dequeuesLeft == 0) {
                        return Decision.linearizable(order());
                    }
                    enter();
                    if (depth == at + 2) {
                        continue;
                    }
                }
                takeBack(moves[move[at]++]);
            }
            return null;
        }

        /** Begin a further depth with all moves that are possible here, if this place is new. */
        private void enter() {
            if (!isNew()) {
                return;
            }
            if (depth == move.length) {
                move = Arrays.copyOf(move, 2 * depth);
                movesEnd = Arrays.copyOf(movesEnd, 2 * depth);
                inBefore = Arrays.copyOf(inBefore, 2 * depth);
                outBefore = Arrays.copyOf(outBefore, 2 * depth);
            }
            move[depth] = moveCount;
            inBefore[depth] = in;
            outBefore[depth] = out;
            collect();
            movesEnd[depth++] = moveCount;
        }

        private void collect() {
            int begin = moveCount;
            long inBound = inBound();
            long outBound = outBound();
            for (int d = lowDequeue; d < dequeues.length && dequeueCall[d] < outBound; d++) {
                if (!dequeueUsed[d] && dequeueValue[d] == NONE && dequeueCall[d] <= out && fits(d + 1L)) {
                    add(NONE, d); // it delays nothing
                    return;
                }
            }
            for (int d = lowDequeue; d < dequeues.length && dequeueCall[d] < outBound; d++) {
                if (dequeueUsed[d] || dequeueValue[d] == NONE || hasBetterDequeue(d)) {
                    continue;
                }
                int before = moveCount;
                int partners = partners(d, inBound);
                if (partners == 1 && moveCount == before + 1 && fits(moves[before])) {
                    moves[begin] = moves[before];
                    moveCount = begin + 1;
                    return;
                }
            }
            sort(begin);
            if (crashedTaken < crashedDequeues.length) {
                for (int e = lowEnqueue; e < enqueues.length && enqueueCall[e] < inBound; e++) {
                    if (!enqueueUsed[e] && !hasBetterEnqueue(e)) {
                        add(e, NONE);
                    }
                }
            }
            for (int d = lowDequeue; d < dequeues.length && dequeueCall[d] < outBound; d++) {
                if (!dequeueUsed[d] && dequeueValue[d] == NONE) {
                    add(NONE, d);
                }
            }
        }

        /** Add the items that this dequeue may take next; how many enqueues there are that it may ever take. */
        private int partners(int d, long inBound) {
            int partners = 0;
            for (int e : enqueuesOf[dequeueValue[d]]) {
                if (enqueueCall[e] > dequeueReturn[d]) {
                    break;
                }
                if (!enqueueUsed[e]) {
                    partners++;
                    if (enqueueCall[e] < inBound && !hasBetterEnqueue(e)) {
                        add(e, d);
                    }
                }
            }
            boolean first = true;
            for (int c : crashedOf[dequeueValue[d]]) {
                if (operations.call[crashedEnqueues[c]] > dequeueReturn[d]) {
                    break;
                }
                if (!crashedUsed[c]) {
                    partners++;
                    if (first && operations.call[crashedEnqueues[c]] < inBound) {
                        add(enqueues.length + c, d);
                    }
                    first = false;
                }
            }
            return partners;
        }

        /** Dequeues that returned first come first. Insertion sort: there are few. */
        private void sort(int begin) {
            for (int i = begin + 1; i < moveCount; i++) {
                long one = moves[i];
                int j = i;
                while (j > begin && returned(moves[j - 1]) > returned(one)) {
                    moves[j] = moves[j - 1];
                    j--;
                }
                moves[j] = one;
            }
        }

        private long returned(long item) {
            return dequeueReturn[(int) item - 1];
        }

        private void add(int e, int d) {
            if (moveCount == moves.length) {
                moves = Arrays.copyOf(moves, 2 * moveCount);
            }
            moves[moveCount++] = (long) (e + 1) << 32 | d + 1;
        }

        private boolean hasBetterEnqueue(int e) {
            for (int other : enqueuesOf[enqueueValue[e]]) {
                if (other == e) {
                    return false; // those that follow were called later
                }
                if (!enqueueUsed[other] && enqueueReturn[other] < enqueueReturn[e]) {
                    return true;
                }
            }
            return false;
        }

        private boolean hasBetterDequeue(int d) {
            for (int other = lowDequeue; other < d; other++) {
                if (!dequeueUsed[other] && dequeueValue[other] == dequeueValue[d]
                        && dequeueReturn[other] < dequeueReturn[d]) {
                    return true;
                }
            }
            return false;
        }

        /** The first return among the enqueues and empty answers that are still to be used. */
        private long inBound() {
            long bound = Long.MAX_VALUE;
            for (int e = lowEnqueue; e < enqueues.length && enqueueCall[e] < bound; e++) {
                bound = enqueueUsed[e] ? bound : Math.min(bound, enqueueReturn[e]);
            }
            for (int d = lowDequeue; empties > 0 && d < dequeues.length && dequeueCall[d] < bound; d++) {
                bound = dequeueUsed[d] || dequeueValue[d] != NONE ? bound : Math.min(bound, dequeueReturn[d]);
            }
            return bound;
        }

        private long outBound() {
            long bound = Long.MAX_VALUE;
            for (int d = lowDequeue; d < dequeues.length && dequeueCall[d] < bound; d++) {
                bound = dequeueUsed[d] ? bound : Math.min(bound, dequeueReturn[d]);
            }
            return bound;
        }

        private boolean lawful() {
            return in < inBound() && Math.max(in, out) < outBound();
        }

        /** Whether this item can come next and hinders nothing that could have come before it; changes nothing. */
        private boolean fits(long item) {
            long inNow = in;
            long outNow = out;
            boolean fits = use(item) && (empties == 0 || out < inBound());
            takeBack(item);
            in = inNow;
            out = outNow;
            return fits;
        }

        /** Use an item; false when it can't come here. To be taken back in either case. */
        private boolean use(long item) {
            int e = (int) (item >>> 32) - 1;
            int d = (int) item - 1;
            if (e >= enqueues.length) {
                crashedUsed[e - enqueues.length] = true;
                in = Math.max(in, operations.call[crashedEnqueues[e - enqueues.length]]);
            } else if (e != NONE) {
                enqueueUsed[e] = true;
                in = Math.max(in, enqueueCall[e]);
            }
            out = Math.max(out, in);
            boolean inTime = true;
            if (d != NONE) {
                dequeueUsed[d] = true;
                dequeuesLeft--;
                out = Math.max(out, dequeueCall[d]);
                inTime = out < dequeueReturn[d];
            } else {
                out = Math.max(out, operations.call[crashedDequeues[crashedTaken++]]);
            }
            if (e == NONE) {
                in = out;
            }
            while (lowEnqueue < enqueues.length && enqueueUsed[lowEnqueue]) {
                lowEnqueue++;
            }
            while (lowDequeue < dequeues.length && dequeueUsed[lowDequeue]) {
                lowDequeue++;
            }
            return inTime && lawful();
        }

        private void takeBack(long item) {
            int e = (int) (item >>> 32) - 1;
            int d = (int) item - 1;
            if (e >= enqueues.length) {
                crashedUsed[e - enqueues.length] = false;
            } else if (e != NONE) {
                enqueueUsed[e] = false;
                lowEnqueue = Math.min(lowEnqueue, e);
            }
            if (d != NONE) {
                dequeueUsed[d] = false;
                dequeuesLeft++;
                lowDequeue = Math.min(lowDequeue, d);
            } else {
                crashedTaken--;
            }
            in = depth == 0 ? Long.MIN_VALUE : inBefore[depth - 1];
            out = depth == 0 ? Long.MIN_VALUE : outBefore[depth - 1];
        }

        /** Whether what is used, and the moments, have not been met before. */
        private boolean isNew() {
            Arrays.fill(key, 0);
            boolean fits = window(enqueueUsed, lowEnqueue, 0) && window(dequeueUsed, lowDequeue, words);
            tooWide |= !fits;
            int at = 2 * words;
            key[at++] = (long) lowEnqueue << 32 | lowDequeue;
            for (int c = 0; c < crashedUsed.length; c++) {
                key[at] |= crashedUsed[c] ? 1L << c : 0;
            }
            key[++at] = in;
            key[++at] = out;
            key[++at] = crashedTaken;
            return fits && seen.add(key);
        }

        private boolean window(boolean[] used, int low, int from) {
            // Used ones end where calls pass the last moment; nothing that was called later can have been used.
            int end = Math.min(used.length, low + 64 * words);
            for (int i = low; i < end; i++) {
                if (used[i]) {
                    key[from + (i - low >> 6)] |= 1L << (i - low & 63);
                }
            }
            for (int i = end; i < used.length; i++) {
                if (used[i]) {
                    return false;
                }
                if ((used == enqueueUsed ? enqueueCall[i] : dequeueCall[i]) > Math.max(in, out)) {
                    break;
                }
            }
            return true;
        }

        /** The linearization: enqueues and dequeues of the items in order, by their moments; the rest at the end. */
        private int[] order() {
            int[] order = new int[operations.count];
            int count = 0;
            long inAt = Long.MIN_VALUE;
            long outAt = Long.MIN_VALUE;
            int[] put = new int[depth + enqueues.length];
            int[] took = new int[depth];
            long[] putAt = new long[put.length];
            long[] tookAt = new long[depth];
            int crashed = 0;
            for (int i = 0; i < depth; i++) {
                long item = moves[move[i]];
                int e = (int) (item >>> 32) - 1;
                int d = (int) item - 1;
                boolean lost = e >= enqueues.length;
                took[i] = d != NONE ? dequeues[d] : crashedDequeues[crashed++];
                put[i] = e == NONE ? took[i] : lost ? crashedEnqueues[e - enqueues.length] : enqueues[e];
                long call = e == NONE ? inAt : lost ? operations.call[put[i]] : enqueueCall[e];
                inAt = Math.max(inAt, call);
                outAt = Math.max(Math.max(outAt, inAt), operations.call[took[i]]);
                inAt = e == NONE ? outAt : inAt;
                putAt[i] = inAt;
                tookAt[i] = outAt;
            }
            int puts = depth;
            for (int e = 0; e < enqueues.length; e++) {
                if (!enqueueUsed[e]) {
                    inAt = Math.max(inAt, enqueueCall[e]);
                    putAt[puts] = inAt;
                    put[puts++] = enqueues[e];
                }
            }
            int i = 0;
            int o = 0;
            while (i < puts || o < depth) {
                boolean answer = i < depth && put[i] == took[i];
                if (i < puts && (o == depth || (answer ? o == i : i <= o || putAt[i] <= tookAt[o]))) {
                    if (put[i] >= 0) {
                        order[count++] = put[i];
                    }
                    o += answer ? 1 : 0;
                    i++;
                } else {
                    order[count++] = took[o++];
                }
            }
            return Arrays.copyOf(order, count);
        }
    }

    /** Exact keys of equal length in an open-addressing table; {@code full} once the budget refuses more. */
    private static final class KeySet {
        private final int length;
        private final Budget budget;
        boolean full;
        private long[] keys;
        private int[] table = new int[64]; // place + 1; 0: free
        private int size;

        KeySet(int length, Budget budget) {
            this.length = length;
            this.budget = budget;
            keys = new long[32 * length];
        }

        /** False if it was there. */
        boolean add(long[] key) {
            int slot = slot(key, 0);
            if (table[slot] != 0) {
                return false;
            }
            if (2 * (size + 1) > table.length) {
                if (!budget.take(8L * table.length + 8L * keys.length)) {
                    full = true;
                    return false;
                }
                table = new int[2 * table.length];
                for (int i = 0; i < size; i++) {
                    table[slot(keys, i * length)] = i + 1;
                }
                slot = slot(key, 0);
            }
            if ((size + 1) * length > keys.length) {
                keys = Arrays.copyOf(keys, 2 * keys.length);
            }
            System.arraycopy(key, 0, keys, size * length, length);
            table[slot] = ++size;
            return true;
        }

        private int slot(long[] from, int at) {
            long hash = 0;
            for (int i = 0; i < length; i++) {
                hash = Numbers.mix(hash + from[at + i]);
            }
            int mask = table.length - 1;
            int slot = (int) hash & mask;
            while (table[slot] != 0 && !same(table[slot] - 1, from, at)) {
                slot = (slot + 1) & mask;
            }
            return slot;
        }

        private boolean same(int place, long[] from, int at) {
            for (int i = 0; i < length; i++) {
                if (keys[place * length + i] != from[at + i]) {
                    return false;
                }
            }
            return true;
        }
    }
}
