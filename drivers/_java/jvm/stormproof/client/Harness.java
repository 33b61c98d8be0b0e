package stormproof.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;

/** The other end of standard input and output. All threads share it. */
public final class Harness {
    private static final int LOOKS = 30;
    private static final int LOOK_MS = 100;

    private final PrintStream lines = System.out;
    private final Function<Object, String> toJson;
    private final Function<String, Map<?, ?>> fromJson;
    private final AtomicLong last = new AtomicLong();
    private final Map<Long, CompletableFuture<Map<?, ?>>> waiting = new ConcurrentHashMap<>();
    private final AtomicInteger open = new AtomicInteger();
    private final CountDownLatch ended = new CountDownLatch(1);

    /** JSON is written and read by what the system's own client brings with it. */
    public Harness(Function<Object, String> toJson, Function<String, Map<?, ?>> fromJson) {
        this.toJson = toJson;
        this.fromJson = fromJson;
        System.setOut(System.err); // what a library prints is no line of ours
        Thread reader = new Thread(this::read, "harness");
        reader.setDaemon(true);
        reader.start();
    }

    /** An operation that has been recorded as begun. */
    public final class Operation {
        final long id;
        public final String key;
        public final byte[] body;

        Operation(long id, Map<?, ?> begin) {
            this.id = id;
            this.key = (String) begin.get("key");
            String text = (String) begin.get("body");
            this.body = text == null ? new byte[0] : text.getBytes(StandardCharsets.UTF_8);
        }

        public void ok(Object... more) {
            end("ok", more);
        }

        public void fail(String reason) {
            end("fail", "reason", reason);
        }

        public void unknown(String reason) {
            end("info", "reason", reason);
        }

        private void end(String type, Object... more) {
            write(line(id, type, more));
            open.decrementAndGet();
        }
    }

    /**
     * Tell that an operation is about to begin, and wait until it is recorded. It never returns once the load is over:
     * then nobody would hear of what the operation does.
     */
    public Operation begin(String f, String process, int queue, Object... more) {
        long id = last.incrementAndGet();
        CompletableFuture<Map<?, ?>> begin = new CompletableFuture<>();
        waiting.put(id, begin);
        Map<String, Object> line = line(id, "invoke", more);
        line.put("f", f);
        line.put("process", process);
        line.put("queue", queue);
        write(line);
        Map<?, ?> told = begin.join();
        open.incrementAndGet();
        return new Operation(id, told);
    }

    /** Wait until the load is over, and then, within a bound, for what is under way. */
    public void awaitEnd() throws InterruptedException {
        ended.await();
        for (int look = 0; look < LOOKS && open.get() > 0; look++) {
            Thread.sleep(LOOK_MS);
        }
    }

    /** End the program, since it can't do what it was told to. */
    public static void give(String up) {
        System.err.println(up);
        System.err.flush();
        Runtime.getRuntime().halt(1);
    }

    private static Map<String, Object> line(long id, String type, Object... more) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", id);
        line.put("type", type);
        for (int at = 0; at < more.length; at += 2) {
            line.put((String) more[at], more[at + 1]);
        }
        return line;
    }

    private void write(Map<String, Object> line) {
        byte[] text = (toJson.apply(line) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (lines) {
            lines.write(text, 0, text.length);
            lines.flush();
        }
    }

    private void read() {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                Map<?, ?> begin = fromJson.apply(line);
                waiting.remove(((Number) begin.get("id")).longValue()).complete(begin);
            }
        } catch (IOException error) {
            System.err.println("standard input: " + error);
        }
        ended.countDown();
    }
}
