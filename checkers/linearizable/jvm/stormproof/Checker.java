package stormproof;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Consumer;
import stormproof.explain.BoundedChecker;
import stormproof.explain.Witness;
import stormproof.explain.Witnesses;
import stormproof.io.Findings;
import stormproof.io.Packed;
import stormproof.model.History;
import stormproof.model.Model;
import stormproof.model.Models;
import stormproof.partition.Partition;
import stormproof.partition.Partitions;
import stormproof.search.Competition;
import stormproof.search.PartitionState;
import stormproof.util.Budget;

/** The checker's front door: packed histories in, JSON out. */
public final class Checker {
    private static final double HEAP_SHARE = 0.6; // large arrays that grow need room beside what is counted
    private static final long BYTES_PER_OPERATION = 80;
    private static final double WITNESS_SECONDS = 1;
    private static final long BATCH_WITNESS_STEPS = 10_000_000; // of all histories of a batch
    private static final long PREFIX_STEPS = 2_000_000; // of one history
    private static final long LEAST_WITNESS_STEPS = 5_000;
    private static final long MOST_WITNESS_STEPS = 300_000;
    private static final double WITNESS_SHARE = 0.05; // of the limit, where the verdict left nothing

    private final double seconds;
    private final long memoryBytes;
    private final int threads;
    private final boolean everyKey;
    private final boolean orders;
    private long witnessSteps = MOST_WITNESS_STEPS;

    /**
     * @param seconds time for the verdict on one history
     * @param memoryBytes for all that is needed at once; never more than the heap allows
     * @param threads at most so many at work; 0: one a core
     * @param everyKey whether to go on after a violation, until each object has a verdict
     * @param orders whether a linearization is told for each object of a linearizable history
     */
    public Checker(double seconds, long memoryBytes, int threads, boolean everyKey, boolean orders) {
        this.seconds = seconds;
        this.memoryBytes = Math.min(memoryBytes, (long) (HEAP_SHARE * Runtime.getRuntime().maxMemory()));
        this.threads = threads > 0 ? threads : Runtime.getRuntime().availableProcessors();
        this.everyKey = everyKey;
        this.orders = orders;
    }

    /**
     * Judge a batch of histories ({@link Packed}); the parameters are those of the constructor. A JSON array, one
     * object a history:
     * <ul>
     * <li>{@code id}; {@code valid}: true, false, "unknown"
     * <li>{@code ms}, the time that the verdict took; {@code witness_ms}, that its explanation took
     * <li>{@code configs}, visited by searches; {@code peak_mib}
     * <li>{@code undecided}: [{key, reason ("time", "memory", "stopped" by a violation elsewhere), placed, of}],
     *     completed operations
     * <li>{@code violated}: keys; {@code witness} of the first of these, or null: {@link Witness}
     * <li>{@code orders}: [{key, order}]; {@code decided_by}: {name of the algorithm: number of objects}
     * </ul>
     * Operations are given by their numbers in the history.
     *
     * @throws IllegalArgumentException when the batch is damaged, a model unknown, or an operation is none of its model
     */
    public static String check(
            byte[] batch, double secondsPerHistory, long memoryBytes, int threads, boolean everyKey, boolean orders) {
        StringBuilder all = new StringBuilder("[");
        new Checker(secondsPerHistory, memoryBytes, threads, everyKey, orders)
                .checkAll(batch, result -> all.append(all.length() > 1 ? ",\n" : "").append(result));
        return all.append(']').toString();
    }

    /** The version of these classes, as the build wrote it; empty where they were built without one. */
    public static String version() {
        try (InputStream resource = Checker.class.getResourceAsStream("/stormproof.version")) {
            return resource == null ? "" : new String(resource.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException e) {
            return "";
        }
    }

    /** Judge all histories of a batch and hand on each result as it comes, in their order. */
    void checkAll(byte[] batch, Consumer<String> results) {
        Packed packed = new Packed(batch);
        long steps = BATCH_WITNESS_STEPS / Math.max(1, packed.histories);
        witnessSteps = Math.max(LEAST_WITNESS_STEPS, Math.min(steps, MOST_WITNESS_STEPS));
        int atATime = Math.max(1, Math.min(threads, packed.histories));
        Batch.Judge judge = (history, alone, spentSeconds) -> alone || atATime == 1
                ? judge(history, seconds - spentSeconds, memoryBytes, threads)
                : judge(history, seconds, memoryBytes / atATime, 1);
        new Batch(packed, judge, atATime, orders, results).run();
    }

    /** Judge one history. */
    public Findings judge(History history) {
        return judge(history, seconds, memoryBytes, threads);
    }

    private Findings judge(History history, double limitSeconds, long limitBytes, int workers) {
        long begin = System.nanoTime();
        Model model = Models.byName(history.model());
        List<Partition> partitions = Partitions.of(history, model);
        Budget budget = new Budget(limitBytes, begin + nanos(limitSeconds));
        budget.take(BYTES_PER_OPERATION * history.operations());
        Competition competition = new Competition(partitions, model, history, budget, workers, everyKey, orders);
        List<PartitionState> partitionStates = competition.run();
        long spent = System.nanoTime() - begin;
        Witness witness = null;
        for (PartitionState partitionState : partitionStates) {
            if (partitionState.violated()) {
                witness = witness(partitionState, model, history, nanos(limitSeconds) - spent, limitBytes);
                break;
            }
        }
        long all = System.nanoTime() - begin;
        return new Findings(
                history,
                partitionStates,
                witness,
                competition.over(),
                spent / 1e6,
                (all - spent) / 1e6,
                budget.peakBytes());
    }

    private Witness witness(PartitionState partitionState, Model model, History history, long nanosLeft, long bytes) {
        double left = Math.max(nanosLeft / 1e9, WITNESS_SHARE * seconds);
        long deadline = System.nanoTime() + nanos(Math.min(left, WITNESS_SECONDS));
        BoundedChecker boundedChecker = new BoundedChecker(model, history, new Budget(bytes, deadline), PREFIX_STEPS);
        return Witnesses.of(partitionState, boundedChecker, witnessSteps);
    }

    private static long nanos(double seconds) {
        return (long) (Math.min(seconds, 1e9) * 1e9);
    }
}
