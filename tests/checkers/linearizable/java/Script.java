package stormproof;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stormproof.io.Packed;
import stormproof.model.History;

/** Writes a history down, one operation a line. */
final class Script {
    static final int CRASHED = -1; // a return

    final String model;
    final List<String> keys = new ArrayList<>();
    final List<int[]> operations = new ArrayList<>(); // key, function, call, ret
    final List<long[]> arguments = new ArrayList<>();
    long[] init = {};
    String id = "script";
    String[] values = {"null", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

    Script(String model) {
        this.model = model;
    }

    Script op(String key, int function, int call, int ret, long... all) {
        if (key != null && !keys.contains(key)) {
            keys.add(key);
        }
        operations.add(new int[] {keys.indexOf(key), function, call, ret});
        arguments.add(all);
        return this;
    }

    Script op(int function, int call, int ret, long... all) {
        return op(null, function, call, ret, all);
    }

    History history() {
        int count = operations.size();
        int[][] columns = new int[4][count];
        int[] start = new int[count + 1];
        long[] all = {};
        byte[] function = new byte[count];
        for (int i = 0; i < count; i++) {
            for (int column = 0; column < 4; column++) {
                columns[column][i] = operations.get(i)[column];
            }
            function[i] = (byte) columns[1][i];
            long[] more = arguments.get(i);
            all = Arrays.copyOf(all, start[i] + more.length);
            System.arraycopy(more, 0, all, start[i], more.length);
            start[i + 1] = all.length;
        }
        return new History(
                id,
                model,
                init,
                values,
                keys.toArray(new String[0]),
                new int[count],
                columns[0],
                function,
                columns[2],
                columns[3],
                start,
                all);
    }

    static byte[] pack(Script... scripts) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.writeBytes("SPLH".getBytes(StandardCharsets.US_ASCII));
        all.writeBytes(ints(Packed.FORMAT, scripts.length));
        for (Script script : scripts) {
            byte[] body = pack(script.history());
            all.writeBytes(ints(body.length));
            all.writeBytes(body);
        }
        return all.toByteArray();
    }

    private static byte[] pack(History history) {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        texts(body, history.id(), history.model());
        body.writeBytes(ints(history.init().length));
        body.writeBytes(longs(history.init()));
        body.writeBytes(ints(history.values().length));
        texts(body, history.values());
        body.writeBytes(ints(history.keys().length));
        texts(body, history.keys());
        body.writeBytes(ints(history.operations()));
        body.writeBytes(ints(history.process()));
        body.writeBytes(ints(history.key()));
        body.writeBytes(history.function());
        body.writeBytes(ints(history.call()));
        body.writeBytes(ints(history.ret()));
        body.writeBytes(ints(history.start()));
        body.writeBytes(ints(history.arguments().length));
        body.writeBytes(longs(history.arguments()));
        return body.toByteArray();
    }

    private static void texts(ByteArrayOutputStream body, String... texts) {
        for (String text : texts) {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            body.writeBytes(ints(bytes.length));
            body.writeBytes(bytes);
        }
    }

    private static byte[] ints(int... all) {
        ByteBuffer bytes = ByteBuffer.allocate(4 * all.length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(all);
        return bytes.array();
    }

    private static byte[] longs(long... all) {
        ByteBuffer bytes = ByteBuffer.allocate(8 * all.length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asLongBuffer().put(all);
        return bytes.array();
    }
}
