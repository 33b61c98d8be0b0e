package stormproof.search;

import java.util.Arrays;
import stormproof.model.Operations;
import stormproof.model.States;
import stormproof.util.Budget;
import stormproof.util.IntList;

/**
 * Depth-first search (Wing and Gong, Testing and verifying concurrent objects, 1993) that remembers the configurations
 * it has visited (Lowe, Testing for linearizability, 2017). Moves and their reductions: {@link SuccessorGenerator}.
 *
 * <p>When the budget refuses to let the memory of visited configurations grow, it is emptied and fills again:
 * forgetting costs time, never the verdict, and what was visited of late is what a depth-first search meets again. The
 * search gives up only when its stack or the model's states find no room. A forgetful search may take for ever; the
 * caller's time ends it.
 */
final class DepthFirst implements Search {
    private static final int MOST_ENDS = 10;

    // Ints of a frame.
    private static final int NEXT_MOVE = 0;
    private static final int TRAIL = 1; // length of the trail with this frame's ops
    private static final int CHAIN_STATE = 2;
    private static final int CHAIN_CLASS = 3; // -1: a base
    private static final int LED_ON = 4; // 1 when a base was visited from here
    private static final int MOVES = 5; // where its moves begin in the list
    private static final int FRAME = 6;

    private final Budget budget;
    private final SuccessorGenerator successors;
    private final Ends ends = new Ends(MOST_ENDS);
    private int words;
    private long[] key = {};
    private long[] scratch = {};
    private long[] chainKey = {};
    private ConfigurationSet visited;
    private ConfigurationSet visitedChains;
    private final IntList frames;
    private final IntList trail;
    /** The configurations of the frames, word by word. */
    private long[] stack = {};
    private long configurations;
    /** The highest level of any configuration, in earnest or not. */
    private int farthest;
    private Status status = Status.RUNNING;

    /** {@code keepOrders} costs nothing here: the order is on the stack. */
    DepthFirst(Operations operations, States states, Budget budget, boolean keepOrders) {
        this(operations, states, budget, keepOrders, Abstraction.EXACT_FIRST);
    }

    /** {@code exactFirst}: configurations until doubts begin, see {@link Abstraction}. */
    DepthFirst(Operations operations, States states, Budget budget, boolean keepOrders, long exactFirst) {
        this.budget = budget;
        successors = new SuccessorGenerator(operations, states, budget, exactFirst);
        frames = new IntList(budget);
        trail = new IntList(budget);
        if (successors.refused()) {
            status = Status.GAVE_UP;
        } else {
            begin();
        }
    }

    /** Begin, or begin anew with another layout. */
    private void begin() {
        words = successors.layout.words;
        key = new long[words];
        scratch = new long[words];
        chainKey = new long[words + 1];
        if (visited != null) {
            visited.close();
            visitedChains.close();
        }
        visited = ConfigurationSet.ofBases(successors.layout, budget);
        visitedChains = ConfigurationSet.ofChains(successors.layout, budget);
        farthest = 0;
        frames.size = 0;
        trail.size = 0;
        successors.list.size = 0;
        successors.start(key);
        enter(key, -1, -1);
    }

    @Override
    public String name() {
        return "depth-first";
    }

    @Override
    public Status run(long steps) {
        long left = steps;
        while (status == Status.RUNNING && left > 0) {
            left -= step();
        }
        return status;
    }

    /** Try the next move of the topmost frame. */
    private long step() {
        if (successors.change(configurations)) {
            begin();
            return 1;
        }
        int frame = frames.size - FRAME;
        if (frame < 0) {
            status = Status.VIOLATION;
            return 1;
        }
        int move = frames.items[frame + NEXT_MOVE];
        if (move == successors.list.size) {
            leave(frame);
            return 1;
        }
        frames.items[frame + NEXT_MOVE] = move + SuccessorGenerator.SIZE;
        System.arraycopy(stack, frame / FRAME * words, key, 0, words);
        boolean chain = successors.apply(key, move, scratch);
        if (chain ? !remember(visitedChains, chainKey()) : !remember(visited, scratch)) {
            return 1;
        }
        if (!chain) {
            for (int f = frame; f >= 0 && frames.items[f + LED_ON] == 0; f -= FRAME) {
                frames.items[f + LED_ON] = 1;
                if (frames.items[f + CHAIN_CLASS] < 0) {
                    break;
                }
            }
        }
        enter(scratch, chain ? successors.chainState : -1, chain ? successors.chainClass : -1);
        return successors.steps();
    }

    private long[] chainKey() {
        System.arraycopy(scratch, 0, chainKey, 0, words);
        chainKey[words] = (long) successors.chainState << 32 | successors.chainClass;
        return chainKey;
    }

    /** Whether it is new. */
    private boolean remember(ConfigurationSet set, long[] configuration) {
        int added = set.add(configuration);
        if (added == ConfigurationSet.REFUSED) {
            set.forget();
            added = set.add(configuration); // refused again when there is no memory at all: go on without
        }
        return added != ConfigurationSet.KNOWN;
    }

    /** Push a frame for a configuration. */
    private void enter(long[] configuration, int chainState, int chainClass) {
        configurations++;
        for (int i = 0; i < successors.appliedCount; i++) {
            trail.add(successors.applied[i]);
        }
        farthest = Math.max(farthest, Layout.level(configuration));
        if (Layout.level(configuration) == successors.window.returns) {
            if (successors.refine(configuration)) {
                begin();
                return;
            }
            status = trail.refused ? Status.GAVE_UP : Status.LINEARIZABLE;
            return;
        }
        int depth = frames.size / FRAME;
        if (!roomFor(depth)) {
            status = Status.GAVE_UP;
            return;
        }
        System.arraycopy(configuration, 0, stack, depth * words, words);
        frames.add(successors.list.size);
        frames.add(trail.size);
        frames.add(chainState);
        frames.add(chainClass);
        frames.add(0);
        frames.add(successors.list.size);
        if (chainClass < 0) {
            successors.fromBase(configuration);
        } else {
            successors.fromChain(configuration, chainState, chainClass);
        }
        if (frames.refused || trail.refused || successors.refused()) {
            frames.size = depth * FRAME; // it may be there in part
            status = Status.GAVE_UP;
        }
    }

    private boolean roomFor(int depth) {
        long needed = (depth + 1L) * words;
        if (needed <= stack.length) {
            return true;
        }
        long wanted = Math.max(2 * needed, 32);
        if (wanted > Integer.MAX_VALUE - 16 || !budget.take(8 * wanted)) {
            return false;
        }
        budget.giveBack(8L * stack.length);
        stack = Arrays.copyOf(stack, (int) wanted);
        return true;
    }

    private void leave(int frame) {
        boolean base = frames.items[frame + CHAIN_CLASS] < 0;
        if (base && frames.items[frame + LED_ON] == 0) {
            System.arraycopy(stack, frame / FRAME * words, key, 0, words);
            noteEnd(key, frames.items[frame + TRAIL]);
        }
        successors.list.size = frames.items[frame + MOVES];
        frames.size = frame;
        trail.size = frame == 0 ? 0 : frames.items[frame - FRAME + TRAIL];
    }

    private void noteEnd(long[] configuration, int ops) {
        int level = Layout.level(configuration);
        int placed = successors.layout.placed(configuration);
        if (ends.wants(level, placed) && successors.lawful(configuration)) {
            int[] order = Arrays.copyOf(trail.items, ops);
            int stuck = successors.window.byReturn[level];
            ends.note(level, placed, new Furthest(order, Layout.state(configuration), stuck));
        }
    }

    @Override
    public long configurations() {
        return configurations;
    }

    @Override
    public int[] order() {
        return Arrays.copyOf(trail.items, trail.size);
    }

    /** While undecided, the branch at hand counts too. */
    @Override
    public Furthest[] furthest(int limit) {
        int frame = frames.size - FRAME;
        while (frame >= 0 && frames.items[frame + CHAIN_CLASS] >= 0) {
            frame -= FRAME;
        }
        if (status != Status.LINEARIZABLE && frame >= 0 && words > 0) {
            System.arraycopy(stack, frame / FRAME * words, key, 0, words);
            noteEnd(key, frames.items[frame + TRAIL]);
        }
        if (status == Status.VIOLATION && ends.level() < farthest && limit > 0) {
            int stuck = successors.window.byReturn[farthest];
            return new Furthest[] {new Furthest(new int[0], successors.initial(), stuck)};
        }
        return ends.best(limit);
    }

    @Override
    public void close() {
        if (status == Status.RUNNING) {
            status = Status.GAVE_UP;
        }
        if (visited != null) {
            visited.close();
            visitedChains.close();
        }
        successors.close();
        frames.close();
        trail.close();
        budget.giveBack(8L * stack.length);
        stack = new long[0];
    }
}
