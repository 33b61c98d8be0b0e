package stormproof.polynomial;

import java.util.List;
import stormproof.model.Model;

/** Which algorithms know which model. */
public final class Shortcuts {
    /** The algorithms for a model, the cheapest first; none for a model that only a search decides. */
    public static List<Shortcut> of(Model model) {
        return switch (model.name()) {
            case "register", "cas-register" -> List.of(
                    new StaleShortcut(RegisterView::ofRegister), new ZonesShortcut(model, RegisterView::ofRegister));
            case "kv" -> List.of(
                    new StaleShortcut(RegisterView::ofKey),
                    new ZonesShortcut(model, RegisterView::ofKey),
                    new AppendsShortcut(model));
            case "replica-info" -> List.of(new ZonesShortcut(model, RegisterView::ofReplicaInfo));
            case "mutex" -> List.of(new AlternationShortcut(model));
            case "set" -> List.of(new ElementsShortcut(model), new InclusionShortcut(model));
            case "fifo-queue" -> List.of(new QueueShortcut(model, false), new QueueShortcut(model, true));
            case "unordered-queue" -> List.of(new UnorderedShortcut(model));
            case "counter" -> List.of(new CounterShortcut(model));
            default -> List.of();
        };
    }

    private Shortcuts() {}
}
