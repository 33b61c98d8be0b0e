"""The file that logs of Raft stand in: its records, how it is rewritten, and what is kept free for small ones."""
