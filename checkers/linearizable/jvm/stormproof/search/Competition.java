package stormproof.search;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import stormproof.model.Decision;
import stormproof.model.History;
import stormproof.model.Model;
import stormproof.model.States;
import stormproof.partition.Partition;
import stormproof.polynomial.Shortcut;
import stormproof.polynomial.Shortcuts;
import stormproof.util.Budget;
import stormproof.util.Threads;

/**
 * Seeks the verdicts on the partitions of one history: first the {@link Shortcut}s of all, then depth-first and
 * breadth-first searches in competition, all of them in turns that grow, the cheapest partition first. So an illegal
 * key is found soon, whatever the order of the keys and however hopeless the others; unless every key is wanted, the
 * first violation ends all.
 *
 * <p>A search may hold as much memory as comes to it when all open searches share alike. A partition whose searches
 * both wanted more is parked, and tried again, alone, once the others are through.
 */
public final class Competition {
    private static final long SMALLEST_SHARE = 256 << 10; // bytes
    private static final int WORTH_THREADS = 20_000; // operations

    private final Model model;
    private final History history;
    private final Budget budget;
    private final int threads;
    private final boolean everyKey;
    private final boolean keepOrders;
    private final List<PartitionState> partitionStates = new ArrayList<>();
    /** Searches that wait for their next turn. Guarded by itself, as is parked. */
    private final ArrayDeque<SearchRun> waiting = new ArrayDeque<>();

    private final List<PartitionState> parked = new ArrayList<>();
    private final AtomicInteger open = new AtomicInteger();
    private volatile boolean over;
    private volatile RuntimeException failure;

    public Competition(
            List<Partition> partitions,
            Model model,
            History history,
            Budget budget,
            int threads,
            boolean everyKey,
            boolean keepOrders) {
        this.model = model;
        this.history = history;
        this.budget = budget;
        this.threads = threads;
        this.everyKey = everyKey;
        this.keepOrders = keepOrders;
        for (Partition partition : partitions) {
            partitionStates.add(new PartitionState(partition));
        }
    }

    /** Run to the end. The states in the order of the partitions. */
    public List<PartitionState> run() {
        try {
            compete();
        } catch (HeapExhausted e) {
            waiting.clear(); // what they hold is more than there is
            for (PartitionState partitionState : partitionStates) {
                partitionState.leave(0, 0, budget.limitBytes());
            }
        }
        return partitionStates;
    }

    private void compete() {
        List<PartitionState> cheapest = new ArrayList<>(partitionStates);
        if (cheapest.size() > 1) {
            cheapest.sort(null);
        }
        int early = history.operations() < WORTH_THREADS ? 1 : threads;
        forAll(cheapest, early, this::takeShortcuts);
        forAll(cheapest, early, partitionState -> {
            if (!partitionState.decided()) {
                takeTurn(searchRun(partitionState, SearchRun.Kind.DEPTH_FIRST, budget.deadlineNanos()));
            }
        });
        takeTurns(threads);
        retryParked();
    }

    public boolean over() {
        return over;
    }

    private void takeShortcuts(PartitionState partitionState) {
        Partition partition = partitionState.partition;
        if (partition.operations().count == 0) {
            partitionState.decide("nothing to do", Decision.linearizable(new int[0]), -1);
        }
        for (Shortcut shortcut : Shortcuts.of(model)) {
            if (partitionState.decided() || budget.timeIsUp()) {
                return;
            }
            Decision decision = shortcut.decide(partition.operations(), history.init(), history.values(), budget);
            if (decision != null) {
                partitionState.decide(shortcut.name(), decision, -1);
                noteViolation(partitionState);
            }
        }
    }

    private void noteViolation(PartitionState partitionState) {
        if (partitionState.violated() && !everyKey) {
            over = true;
        }
    }

    private SearchRun searchRun(PartitionState partitionState, SearchRun.Kind kind, long deadlineNanos) {
        States states = model.states(partitionState.partition.operations(), history.init(), history.values());
        open.incrementAndGet();
        return new SearchRun(partitionState, kind, states, budget.share(shareBytes(), deadlineNanos), keepOrders);
    }

    private long shareBytes() {
        return Math.max(SMALLEST_SHARE, budget.limitBytes() / Math.max(1, open.get()));
    }

    private void takeTurns(int workers) {
        int useful;
        synchronized (waiting) {
            useful = Math.min(workers, waiting.size());
        }
        parallel(useful, () -> {
            for (SearchRun next = next(); next != null && failure == null; next = next()) {
                takeTurn(next);
            }
        });
    }

    private SearchRun next() {
        synchronized (waiting) {
            return waiting.poll();
        }
    }

    private void takeTurn(SearchRun searchRun) {
        long shareBytes = shareBytes();
        Search.Status status = searchRun.turn(shareBytes, this);
        PartitionState partitionState = searchRun.partitionState;
        if (status == Search.Status.RUNNING && !searchRun.done(this)) {
            SearchRun rival = partitionState.callForRival()
                    ? searchRun(partitionState, SearchRun.Kind.BREADTH_FIRST, searchRun.deadlineNanos())
                    : null;
            synchronized (waiting) {
                if (rival != null) {
                    waiting.add(rival);
                }
                waiting.add(searchRun);
            }
            return;
        }
        noteViolation(partitionState);
        open.decrementAndGet();
        boolean refused = status == Search.Status.GAVE_UP;
        if (searchRun.leave(refused ? shareBytes : 0) && refused && !partitionState.decided()) {
            synchronized (waiting) {
                parked.add(partitionState);
            }
        }
    }

    /** With all memory, and with equal parts of the time that is left. */
    private void retryParked() {
        parked.sort(null);
        int left = parked.size();
        for (PartitionState partitionState : List.copyOf(parked)) {
            long now = System.nanoTime();
            long deadline = now + (budget.deadlineNanos() - now) / left--;
            if (over || budget.timeIsUp() || 4 * partitionState.refusedBytes() > budget.limitBytes()) {
                continue; // a share that isn't at least twice as large helps hardly
            }
            partitionState.callForRival();
            SearchRun depthFirst = searchRun(partitionState, SearchRun.Kind.DEPTH_FIRST, deadline);
            SearchRun breadthFirst = searchRun(partitionState, SearchRun.Kind.BREADTH_FIRST, deadline);
            waiting.add(depthFirst);
            waiting.add(breadthFirst);
            takeTurns(Math.min(threads, 2));
        }
    }

    private void forAll(List<PartitionState> all, int workers, Consumer<PartitionState> action) {
        AtomicInteger cursor = new AtomicInteger();
        parallel(Math.min(workers, all.size()), () -> {
            int i = cursor.getAndIncrement();
            while (i < all.size() && !over && failure == null && !budget.timeIsUp()) {
                action.accept(all.get(i));
                i = cursor.getAndIncrement();
            }
        });
    }

    /** Run an action in so many threads, this one among them; an exception of any is thrown here. */
    private void parallel(int workers, Runnable action) {
        Thread[] helpers = new Thread[Math.max(0, workers - 1)];
        for (int i = 0; i < helpers.length; i++) {
            helpers[i] = new Thread(() -> guarded(action), "stormproof-" + (i + 1));
            helpers[i].setDaemon(true);
            helpers[i].start();
        }
        guarded(action);
        Threads.join(helpers, () -> over = true);
        if (failure != null) {
            throw failure;
        }
    }

    private void guarded(Runnable action) {
        try {
            action.run();
        } catch (OutOfMemoryError e) {
            failure = new HeapExhausted();
        } catch (RuntimeException e) {
            failure = e;
        }
    }

    /** The budget was larger than what the heap had left: all searches of this history are dropped. */
    private static final class HeapExhausted extends RuntimeException {
        private static final long serialVersionUID = 1;

        HeapExhausted() {
            super("memory", null, false, false);
        }
    }
}
