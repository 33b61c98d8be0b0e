"""Reads histories that others recorded."""

#: The formats by name.
FORMATS = ("knossos", "jepsen", "porcupine-etcd", "porcupine-kv", "porcupine-json", "json", "jsonl")
