package stormproof.io;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import stormproof.explain.Witness;
import stormproof.model.History;
import stormproof.model.Operations;
import stormproof.partition.Partition;
import stormproof.partition.Parts;
import stormproof.search.PartitionState;

/** What was found out about one history, and its JSON form (see {@code Checker.check}). */
public record Findings(
        History history,
        List<PartitionState> partitionStates,
        Witness witness,
        boolean stopped,
        double milliseconds,
        double witnessMilliseconds,
        long peakBytes) {
    private static final double MIB = 1 << 20;

    /** Nothing is known: the heap was too small for the history itself. */
    public static Findings heapExhausted(History history) {
        Operations none = new Operations(new int[0], new int[0], new int[0], new int[0], new int[0], new long[0][]);
        PartitionState partitionState = new PartitionState(new Partition(null, none, none));
        partitionState.leave(0, 0, Runtime.getRuntime().maxMemory());
        return new Findings(history, List.of(partitionState), null, false, 0, 0, Runtime.getRuntime().maxMemory());
    }

    /** Whether more memory might bring a verdict. */
    public boolean wantsMemory() {
        boolean wants = false;
        for (PartitionState partitionState : partitionStates) {
            if (partitionState.violated()) {
                return false;
            }
            wants |= !partitionState.decided() && partitionState.reason(stopped) == PartitionState.Reason.MEMORY;
        }
        return wants;
    }

    /** The same, found after an attempt that took so long. */
    public Findings after(double earlierMilliseconds) {
        double sum = earlierMilliseconds + milliseconds;
        return new Findings(history, partitionStates, witness, stopped, sum, witnessMilliseconds, peakBytes);
    }

    public String toJson(boolean orders) {
        List<Key> keys = byKey();
        boolean violation = false;
        boolean open = false;
        long configurations = 0;
        for (PartitionState partitionState : partitionStates) {
            violation |= partitionState.violated();
            open |= !partitionState.decided();
            configurations += partitionState.configurations();
        }
        Json json = new Json().beginObject();
        json.name("id").value(history.id()).name("valid");
        if (!violation && open) {
            json.value("unknown");
        } else {
            json.value(!violation);
        }
        json.name("ms").thousandths(milliseconds);
        json.name("witness_ms").thousandths(witnessMilliseconds);
        json.name("configs").value(configurations);
        json.name("peak_mib").thousandths(peakBytes / MIB);
        undecided(json.name("undecided"), keys);
        violated(json.name("violated"), keys);
        witness(json.name("witness"));
        orders(json.name("orders"), orders && !violation && !open ? keys : List.of());
        decidedBy(json.name("decided_by"));
        return json.endObject().toString();
    }

    private void undecided(Json json, List<Key> keys) {
        json.beginArray();
        for (Key key : keys) {
            if (!key.violated() && key.firstOpen() != null) {
                json.beginObject().name("key").value(key.name);
                json.name("reason").value(key.firstOpen().reason(stopped).text);
                json.name("placed").value(key.placed());
                json.name("of").value(key.completed());
                json.endObject();
            }
        }
        json.endArray();
    }

    private void violated(Json json, List<Key> keys) {
        json.beginArray();
        for (Key key : keys) {
            if (key.violated()) {
                json.value(key.name);
            }
        }
        json.endArray();
    }

    private void witness(Json json) {
        if (witness == null) {
            json.value((String) null);
            return;
        }
        json.beginObject().name("key").value(witness.key()).name("reason").value(witness.reason());
        json.name("prefix").value(witness.prefix()).name("blocked").value(witness.blocked());
        json.name("dead_ends").beginArray();
        for (Witness.DeadEnd end : witness.deadEnds()) {
            json.beginObject().name("order").value(end.order());
            json.name("state").value(end.state());
            json.name("illegal").value(end.illegal()).endObject();
        }
        json.endArray().name("minimal").value(witness.minimal()).endObject();
    }

    private void orders(Json json, List<Key> keys) {
        json.beginArray();
        for (Key key : keys) {
            json.beginObject().name("key").value(key.name).name("order").value(key.order()).endObject();
        }
        json.endArray();
    }

    private void decidedBy(Json json) {
        Map<String, Integer> objects = new TreeMap<>();
        for (PartitionState partitionState : partitionStates) {
            if (partitionState.decided()) {
                objects.merge(partitionState.decidedBy(), 1, Integer::sum);
            }
        }
        json.beginObject();
        for (Map.Entry<String, Integer> entry : objects.entrySet()) {
            json.name(entry.getKey()).value(entry.getValue());
        }
        json.endObject();
    }

    private List<Key> byKey() {
        List<Key> keys = new ArrayList<>();
        Key last = null;
        for (PartitionState partitionState : partitionStates) {
            if (last == null || !Objects.equals(last.name, partitionState.partition.key())) {
                last = new Key(partitionState.partition.key());
                keys.add(last);
            }
            last.parts.add(partitionState);
        }
        return keys;
    }

    /** An object: its parts, each of which was judged on its own, stand together. */
    private static final class Key {
        final String name;
        final List<PartitionState> parts = new ArrayList<>(1);

        Key(String name) {
            this.name = name;
        }

        boolean violated() {
            for (PartitionState part : parts) {
                if (part.violated()) {
                    return true;
                }
            }
            return false;
        }

        PartitionState firstOpen() {
            for (PartitionState part : parts) {
                if (!part.decided()) {
                    return part;
                }
            }
            return null;
        }

        int completed() {
            int completed = 0;
            for (PartitionState part : parts) {
                completed += part.partition.completed();
            }
            return completed;
        }

        int placed() {
            int placed = 0;
            for (PartitionState part : parts) {
                placed += part.decided() ? part.partition.completed() : part.placed();
            }
            return placed;
        }

        int[] order() {
            List<Operations> operations = new ArrayList<>(parts.size());
            List<int[]> orders = new ArrayList<>(parts.size());
            for (PartitionState part : parts) {
                operations.add(part.partition.operations());
                orders.add(part.decision().order());
            }
            return Parts.merged(operations, orders);
        }
    }
}
