package stormproof.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import stormproof.Checker;
import stormproof.io.Findings;
import stormproof.io.Json;
import stormproof.model.History;
import stormproof.model.Models;
import stormproof.search.PartitionState;

/**
 * Histories of millions of objects on Spark: operations as rows are brought together by key, and each object is checked
 * where its rows are. Only what is not linearizable, or undecided, comes back, and counts.
 *
 * <p>Columns: key (long or string), process (whole number), f (whole number, {@code Function}), value and, where there
 * are any compare-and-sets, expected (both long or both string; null: nil, or unknown where the model says so), call
 * and ret (long; ret null: crashed).
 */
public final class Keys implements MapPartitionsFunction<Row, String> {
    private static final String[] COLUMNS = {"key", "process", "f", "value", "call", "ret"};
    private static final String OPTIONAL = "expected";
    private static final int PARTITIONS_PER_CORE = 4;
    private static final long serialVersionUID = 1;

    private final String model;
    private final Object[] init;
    private final double secondsPerKey;
    private final long memoryBytes;
    private final int most;

    private Keys(String model, Object[] init, double secondsPerKey, long memoryBytes, int most) {
        this.model = model;
        this.init = init;
        this.secondsPerKey = secondsPerKey;
        this.memoryBytes = memoryBytes;
        this.most = most;
    }

    /**
     * Check all keys of Parquet files in the session that is up in this JVM.
     *
     * @param paths files or folders, one a line
     * @param init the arguments of the first state of each object, one a line; empty: the model's own
     * @param memoryBytes for one key
     * @param most results of so many keys are told per partition, beside the counts
     * @return a JSON array with an object a partition: {@code keys}, {@code operations}, {@code valid}, {@code invalid},
     *     {@code undecided}, {@code ms}, and {@code results}, each {rows: {@link KeyRows#write}, result: as of
     *     {@link Checker#check}}; the result's id is the key
     */
    public static String check(
            String paths, String model, String init, double secondsPerKey, long memoryBytes, int most) {
        Models.byName(model);
        SparkSession session = SparkSession.builder().getOrCreate();
        Dataset<Row> rows = session.read().parquet(paths.split("\n"));
        List<String> found = Arrays.asList(rows.columns());
        for (String column : COLUMNS) {
            if (!found.contains(column)) {
                throw new IllegalArgumentException("the rows have no column " + column);
            }
        }
        int partitions = PARTITIONS_PER_CORE * session.sparkContext().defaultParallelism();
        boolean texts = isText(rows, "value") || found.contains(OPTIONAL) && isText(rows, OPTIONAL);
        String type = texts ? "string" : "long";
        Keys keys = new Keys(model, first(init, texts), secondsPerKey, memoryBytes, most);
        // As few and narrow columns as can be: it is the rows' way, not the checks, that takes the time.
        List<Column> wanted = new ArrayList<>(List.of(
                functions.col("key"),
                functions.expr("cast(process as bigint) * " + KeyRows.FUNCTIONS + " + f"),
                functions.col("call").cast("long"),
                functions.expr("coalesce(cast(ret as bigint), " + KeyRows.NEVER + ")"),
                functions.col("value").cast(type)));
        if (found.contains(OPTIONAL)) {
            wanted.add(functions.col(OPTIONAL).cast(type));
        }
        List<String> told = rows.select(wanted.toArray(Column[]::new))
                .toDF(Arrays.copyOf(new String[] {"key", "what", "call", "ret", "value", OPTIONAL}, wanted.size()))
                .repartition(partitions, functions.col("key"))
                .sortWithinPartitions("key", "call")
                .mapPartitions(keys, Encoders.STRING())
                .collectAsList();
        return "[" + String.join(",\n", told) + "]";
    }

    private static boolean isText(Dataset<Row> rows, String column) {
        return rows.schema().apply(column).dataType().sameType(DataTypes.StringType);
    }

    /** The first state in the type of the values, so that equal ones are equal. */
    private static Object[] first(String init, boolean texts) {
        String[] lines = init.isEmpty() ? new String[0] : init.split("\n");
        Object[] all = new Object[lines.length];
        for (int i = 0; i < lines.length; i++) {
            boolean number = !texts && lines[i].matches("-?[0-9]{1,18}");
            all[i] = number ? (Object) Long.valueOf(lines[i]) : lines[i];
        }
        return all;
    }

    @Override
    public Iterator<String> call(Iterator<Row> rows) {
        Tally tally = new Tally();
        Checker checker = new Checker(secondsPerKey, memoryBytes, 1, true, false);
        KeyRows gathered = new KeyRows(model, init);
        Object current = null;
        while (rows.hasNext()) {
            Row row = rows.next();
            Object key = row.get(KeyRows.KEY);
            if (key == null) {
                throw new IllegalArgumentException("a row without a key");
            }
            if (current != null && !current.equals(key)) {
                tally.add(checker, gathered, current);
            }
            current = key;
            gathered.add(row);
        }
        if (current != null) {
            tally.add(checker, gathered, current);
        }
        return List.of(tally.toJson()).iterator();
    }

    /** What was found in one partition. */
    private final class Tally {
        private long keys;
        private long operations;
        private long invalid;
        private long undecided;
        private double milliseconds;
        private final List<String> results = new ArrayList<>();

        void add(Checker checker, KeyRows gathered, Object key) {
            History history = gathered.history(key.toString());
            Findings findings = checker.judge(history);
            keys++;
            operations += history.operations();
            milliseconds += findings.milliseconds();
            boolean violated = false;
            boolean open = false;
            for (PartitionState partitionState : findings.partitionStates()) {
                violated |= partitionState.violated();
                open |= !partitionState.decided();
            }
            invalid += violated ? 1 : 0;
            undecided += open && !violated ? 1 : 0;
            if ((violated || open) && results.size() < most) {
                String rows = KeyRows.write(history, new Json()).toString();
                results.add("{\"rows\": " + rows + ", \"result\": " + findings.toJson(false) + "}");
            }
            gathered.clear();
        }

        String toJson() {
            return "{\"keys\": " + keys + ", \"operations\": " + operations + ", \"valid\": "
                    + (keys - invalid - undecided) + ", \"invalid\": " + invalid + ", \"undecided\": " + undecided
                    + ", \"ms\": " + milliseconds + ", \"results\": [" + String.join(",\n", results) + "]}";
        }
    }
}
