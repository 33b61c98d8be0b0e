package stormproof;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/** What was found out about one history, and its JSON form (see {@link Checker#check}). */
record Findings(
        History history,
        List<Contest> contests,
        Witness witness,
        boolean stopped,
        double milliseconds,
        double witnessMilliseconds,
        long peakBytes) {
    private static final double MIB = 1 << 20;

    /** Nothing is known: the heap was too small for the history itself. */
    static Findings heapExhausted(History history) {
        Operations none = new Operations(new int[0], new int[0], new int[0], new int[0], new int[0], new long[0][]);
        Contest contest = new Contest(new Partition(null, none, none));
        contest.leave(0, 0, Runtime.getRuntime().maxMemory());
        return new Findings(history, List.of(contest), null, false, 0, 0, Runtime.getRuntime().maxMemory());
    }

    /** Whether more memory might bring a verdict. */
    boolean wantsMemory() {
        boolean wants = false;
        for (Contest contest : contests) {
            if (contest.violated()) {
                return false;
            }
            wants |= !contest.decided() && contest.reason(stopped) == Contest.Reason.MEMORY;
        }
        return wants;
    }

    /** The same, found after an attempt that took so long. */
    Findings after(double earlierMilliseconds) {
        double sum = earlierMilliseconds + milliseconds;
        return new Findings(history, contests, witness, stopped, sum, witnessMilliseconds, peakBytes);
    }

    String toJson(boolean orders) {
        List<Key> keys = byKey();
        boolean violation = false;
        boolean open = false;
        long configurations = 0;
        for (Contest contest : contests) {
            violation |= contest.violated();
            open |= !contest.decided();
            configurations += contest.configurations();
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
        for (Contest contest : contests) {
            if (contest.decided()) {
                objects.merge(contest.decidedBy(), 1, Integer::sum);
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
        for (Contest contest : contests) {
            if (last == null || !Objects.equals(last.name, contest.partition.key())) {
                last = new Key(contest.partition.key());
                keys.add(last);
            }
            last.parts.add(contest);
        }
        return keys;
    }

    /** An object: its parts, each of which was judged on its own, stand together. */
    private static final class Key {
        final String name;
        final List<Contest> parts = new ArrayList<>(1);

        Key(String name) {
            this.name = name;
        }

        boolean violated() {
            for (Contest part : parts) {
                if (part.violated()) {
                    return true;
                }
            }
            return false;
        }

        Contest firstOpen() {
            for (Contest part : parts) {
                if (!part.decided()) {
                    return part;
                }
            }
            return null;
        }

        int completed() {
            int completed = 0;
            for (Contest part : parts) {
                completed += part.partition.completed();
            }
            return completed;
        }

        int placed() {
            int placed = 0;
            for (Contest part : parts) {
                placed += part.decided() ? part.partition.completed() : part.placed();
            }
            return placed;
        }

        int[] order() {
            List<Operations> operations = new ArrayList<>(parts.size());
            List<int[]> orders = new ArrayList<>(parts.size());
            for (Contest part : parts) {
                operations.add(part.partition.operations());
                orders.add(part.decision().order());
            }
            return Parts.merged(operations, orders);
        }
    }
}
