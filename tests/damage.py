"""What Hypothesis draws for several tests: damaged bytes, and values that nobody expects."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def flipped(draw: st.DrawFn, data: bytes) -> bytes:
    """One bit is wrong."""
    damaged = bytearray(data)
    damaged[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
    return bytes(damaged)


@st.composite
def altered(draw: st.DrawFn, data: bytes) -> bytes:
    """Some places, maybe none, have other bytes, more or fewer; or the end is missing."""
    damaged = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(damaged)))
        damaged[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(damaged[: draw(st.integers(0, len(damaged)))] if draw(st.booleans()) else damaged)


def json_values(texts: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[object]:
    """Anything that JSON, or YAML, can say; ``texts``: words of it, keys too."""
    words = st.text(max_size=6) if texts is None else texts
    plain = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | words
    return st.recursive(plain, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4))
