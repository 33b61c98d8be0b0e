package stormproof.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;

/** JSON by what Kafka's own programs read it with. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Json() {
    }

    static String write(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
    }

    static Map<?, ?> read(String text) {
        try {
            return MAPPER.readValue(text, Map.class);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
    }
}
