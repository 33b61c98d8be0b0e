package stormproof;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/**
 * Seeks the verdicts on the partitions of one history: first the {@link Shortcut}s of all, then depth-first and
 * breadth-first searches in competition, all of them in turns that grow, the cheapest partition first. So an illegal
 * key is found soon, whatever the order of the keys and however hopeless the others; unless every key is wanted, the
 * first violation ends all.
 *
 * <p>A search may hold as much memory as comes to it when all open searches share alike. A partition whose searches
 * both wanted more is parked, and tried again, alone, once the others are through.
 */
final class Competition {
    private static final long SMALLEST_SHARE = 256 << 10; // bytes
    private static final int WORTH_THREADS = 20_000; // operations

    private final Model model;
    private final History history;
    private final Budget budget;
    private final int threads;
    private final boolean everyKey;
    private final boolean keepOrders;
    private final List<Contest> contests = new ArrayList<>();
    /** Contenders that wait for their next turn. Guarded by itself, as is parked. */
    private final ArrayDeque<Contender> waiting = new ArrayDeque<>();

    private final List<Contest> parked = new ArrayList<>();
    private final AtomicInteger open = new AtomicInteger();
    private volatile boolean over;
    private volatile RuntimeException failure;

    Competition(
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
            contests.add(new Contest(partition));
        }
    }

    /** Run to the end. The contests in the order of the partitions. */
    List<Contest> run() {
        try {
            compete();
        } catch (HeapExhausted e) {
            waiting.clear(); // what they hold is more than there is
            for (Contest contest : contests) {
                contest.leave(0, 0, budget.limitBytes());
            }
        }
        return contests;
    }

    private void compete() {
        List<Contest> cheapest = new ArrayList<>(contests);
        if (cheapest.size() > 1) {
            cheapest.sort(null);
        }
        int early = history.operations() < WORTH_THREADS ? 1 : threads;
        forAll(cheapest, early, this::takeShortcuts);
        forAll(cheapest, early, contest -> {
            if (!contest.decided()) {
                takeTurn(contender(contest, Contender.Kind.DEPTH_FIRST, budget.deadlineNanos()));
            }
        });
        takeTurns(threads);
        retryParked();
    }

    boolean over() {
        return over;
    }

    private void takeShortcuts(Contest contest) {
        Partition partition = contest.partition;
        if (partition.operations().count == 0) {
            contest.decide("nothing to do", Decision.linearizable(new int[0]), -1);
        }
        for (Shortcut shortcut : model.shortcuts()) {
            if (contest.decided() || budget.timeIsUp()) {
                return;
            }
            Decision decision = shortcut.decide(partition.operations(), history.init(), history.values(), budget);
            if (decision != null) {
                contest.decide(shortcut.name(), decision, -1);
                noteViolation(contest);
            }
        }
    }

    private void noteViolation(Contest contest) {
        if (contest.violated() && !everyKey) {
            over = true;
        }
    }

    private Contender contender(Contest contest, Contender.Kind kind, long deadlineNanos) {
        States states = model.states(contest.partition.operations(), history.init(), history.values());
        open.incrementAndGet();
        return new Contender(contest, kind, states, budget.share(shareBytes(), deadlineNanos), keepOrders);
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
            for (Contender next = next(); next != null && failure == null; next = next()) {
                takeTurn(next);
            }
        });
    }

    private Contender next() {
        synchronized (waiting) {
            return waiting.poll();
        }
    }

    private void takeTurn(Contender contender) {
        long shareBytes = shareBytes();
        Search.Status status = contender.turn(shareBytes, this);
        Contest contest = contender.contest;
        if (status == Search.Status.RUNNING && !contender.done(this)) {
            Contender rival = contest.callForRival()
                    ? contender(contest, Contender.Kind.BREADTH_FIRST, contender.deadlineNanos())
                    : null;
            synchronized (waiting) {
                if (rival != null) {
                    waiting.add(rival);
                }
                waiting.add(contender);
            }
            return;
        }
        noteViolation(contest);
        open.decrementAndGet();
        boolean refused = status == Search.Status.GAVE_UP;
        if (contender.leave(refused ? shareBytes : 0) && refused && !contest.decided()) {
            synchronized (waiting) {
                parked.add(contest);
            }
        }
    }

    /** With all memory, and with equal parts of the time that is left. */
    private void retryParked() {
        parked.sort(null);
        int left = parked.size();
        for (Contest contest : List.copyOf(parked)) {
            long now = System.nanoTime();
            long deadline = now + (budget.deadlineNanos() - now) / left--;
            if (over || budget.timeIsUp() || 4 * contest.refusedBytes() > budget.limitBytes()) {
                continue; // a share that isn't at least twice as large helps hardly
            }
            contest.callForRival();
            Contender depthFirst = contender(contest, Contender.Kind.DEPTH_FIRST, deadline);
            Contender breadthFirst = contender(contest, Contender.Kind.BREADTH_FIRST, deadline);
            waiting.add(depthFirst);
            waiting.add(breadthFirst);
            takeTurns(Math.min(threads, 2));
        }
    }

    private void forAll(List<Contest> all, int workers, Consumer<Contest> action) {
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
