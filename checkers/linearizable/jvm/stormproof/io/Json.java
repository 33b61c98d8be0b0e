package stormproof.io;

/** Writes JSON, one value after the other; commas come by themselves. */
public final class Json {
    private static final char[] HEX = "0123456789abcdef".toCharArray();

    private final StringBuilder text = new StringBuilder(256);
    private boolean first = true;

    public Json beginObject() {
        return begin('{');
    }

    public Json endObject() {
        return end('}');
    }

    public Json beginArray() {
        return begin('[');
    }

    public Json endArray() {
        return end(']');
    }

    public Json name(String name) {
        separate();
        quote(name);
        text.append(':');
        first = true;
        return this;
    }

    /** A string; null becomes null. */
    public Json value(String value) {
        separate();
        if (value == null) {
            text.append("null");
        } else {
            quote(value);
        }
        return this;
    }

    public Json value(long value) {
        separate();
        text.append(value);
        return this;
    }

    Json value(boolean value) {
        separate();
        text.append(value);
        return this;
    }

    /** A number of at least 0, rounded to thousandths. */
    Json thousandths(double value) {
        separate();
        long all = Math.round(value * 1000);
        text.append(all / 1000).append('.');
        text.append((char) ('0' + all / 100 % 10)).append((char) ('0' + all / 10 % 10)).append((char) ('0' + all % 10));
        return this;
    }

    public Json value(int[] values) {
        beginArray();
        for (int value : values) {
            value(value);
        }
        return endArray();
    }

    @Override
    public String toString() {
        return text.toString();
    }

    private Json begin(char bracket) {
        separate();
        text.append(bracket);
        first = true;
        return this;
    }

    private Json end(char bracket) {
        text.append(bracket);
        first = false;
        return this;
    }

    private void separate() {
        if (!first) {
            text.append(',');
        }
        first = false;
    }

    /** Control characters, the separators that JavaScript takes for line ends, and lone surrogates are escaped. */
    private void quote(String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ' || c == 0x7f || c == 0x2028 || c == 0x2029 || loneSurrogate(value, i)) {
                text.append("\\u");
                for (int shift = 12; shift >= 0; shift -= 4) {
                    text.append(HEX[c >> shift & 15]);
                }
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }

    private static boolean loneSurrogate(String value, int i) {
        char c = value.charAt(i);
        if (Character.isHighSurrogate(c)) {
            return i + 1 == value.length() || !Character.isLowSurrogate(value.charAt(i + 1));
        }
        return Character.isLowSurrogate(c) && (i == 0 || !Character.isHighSurrogate(value.charAt(i - 1)));
    }
}
