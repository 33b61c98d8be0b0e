package stormproof.model;

import java.util.LinkedHashMap;
import java.util.Map;

/** All models by name. */
public final class Models {
    private static final Map<String, Model> ALL = new LinkedHashMap<>();

    static {
        add(new RegisterModel("register"));
        add(new RegisterModel("cas-register"));
        add(new MultiRegisterModel());
        add(new MutexModel());
        add(new FencedLockModel());
        add(new KvModel());
        add(new SetModel());
        add(new FifoQueueModel());
        add(new UnorderedQueueModel());
        add(new CounterModel());
        add(new ReplicaInfoModel());
    }

    /**
     * The model of this name.
     *
     * @throws IllegalArgumentException when there is none; it lists the names
     */
    public static Model byName(String name) {
        Model model = ALL.get(name);
        if (model == null) {
            throw new IllegalArgumentException(
                    "no model is called '" + name + "'; there are " + String.join(", ", ALL.keySet()));
        }
        return model;
    }

    /** The JSON text of a value. */
    public static String text(String[] values, long value) {
        return value >= 0 && value < values.length ? values[(int) value] : "value " + value;
    }

    /** What to throw when a history names a function that its model does not have. */
    public static IllegalArgumentException noSuch(int function, String what) {
        return new IllegalArgumentException(what + " has no function with the code " + function);
    }

    private static void add(Model model) {
        ALL.put(model.name(), model);
    }

    private Models() {}
}
