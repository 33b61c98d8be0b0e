package stormproof;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The checker as a command: files of packed histories in, one JSON object a line out. */
final class Main {
    private static final int BAD_INPUT = 3;
    private static final String USAGE =
            "usage: stormproof.Main [--time-limit S] [--memory MIB] [--threads N] [--every-key] [--orders] [--repeat N]"
                    + " FILE...";

    private double seconds = 60;
    private double memoryMib = 1024;
    private int threads;
    private boolean everyKey;
    private boolean orders;
    private int repeat = 1; // so often all files are judged, in the same JVM: for benchmarks
    private final List<String> files = new ArrayList<>();

    /** Exit with 0 when all was judged, whatever the verdicts, and with 3 when something could not be read. */
    public static void main(String[] arguments) {
        Main main = new Main();
        try {
            main.parse(arguments);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage() + "\n" + USAGE);
            System.exit(BAD_INPUT);
        }
        boolean good = true;
        for (int i = 0; i < main.repeat; i++) {
            good &= main.run();
        }
        System.exit(good ? 0 : BAD_INPUT);
    }

    private void parse(String[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--time-limit" -> seconds = number(arguments, ++i);
                case "--memory" -> memoryMib = number(arguments, ++i);
                case "--threads" -> threads = (int) number(arguments, ++i);
                case "--every-key" -> everyKey = true;
                case "--orders" -> orders = true;
                case "--repeat" -> repeat = (int) number(arguments, ++i);
                default -> {
                    if (arguments[i].startsWith("--")) {
                        throw new IllegalArgumentException("there is no option " + arguments[i]);
                    }
                    files.add(arguments[i]);
                }
            }
        }
        if (files.isEmpty()) {
            throw new IllegalArgumentException("no file was named");
        }
    }

    private static double number(String[] arguments, int i) {
        if (i < arguments.length) {
            try {
                double number = Double.parseDouble(arguments[i]);
                if (number >= 0) {
                    return number;
                }
            } catch (NumberFormatException e) {
                // the same message as for a negative one
            }
        }
        throw new IllegalArgumentException(arguments[i - 1] + " needs a number of at least 0");
    }

    private boolean run() {
        boolean good = true;
        Checker checker = new Checker(seconds, (long) (memoryMib * (1 << 20)), threads, everyKey, orders);
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String file : files) {
            try {
                checker.checkAll(Files.readAllBytes(Path.of(file)), result -> {
                    out.print(result);
                    out.print('\n');
                    out.flush();
                });
            } catch (IOException | InvalidPathException e) {
                System.err.println(file + ": cannot be read: " + e);
                good = false;
            } catch (RuntimeException e) {
                System.err.println(file + ": " + (e instanceof IllegalArgumentException ? e.getMessage() : e));
                good = false;
            }
        }
        return good;
    }
}
