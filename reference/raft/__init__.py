"""Raft, made of parts: what a member knows (:mod:`~reference.raft.state`), the small decisions that it rests on
(:mod:`~reference.raft.policy`), and a part for each concept, each with what it needs of others in its constructor. The
member as a whole (:mod:`~reference.raft.member`) takes each message to the parts that it concerns.

Source: Ongaro's thesis; each part names its chapters. All messages are one-way and may be lost with their connection;
no answer that promises something leaves before that is durable.
"""
