"""What systems may serve beside queues: topics that clients make, objects, metadata, locks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from chaos.driver import Client, Network
from chaos.ops import Answer, QueueRef

#: What the keys of an object hold when it has been made: the text, the set, and the set's version.
FIRST_TEXT = "nowhere"
FIRST_SET = (1,)
FIRST_VERSION = 1


def text_key(name: str) -> str:
    """Return the key of an object's text."""
    return f"{name}/text"


def set_key(name: str) -> str:
    """Return the key of an object's set."""
    return f"{name}/set"


class WaitingReads(Client, Protocol):
    """A client of queues whose reads may wait at the end of a queue (long polling)."""

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        limit: int,
        max_bytes: int = 0,
        node: str = "",
        source: str = "",
        wait_s: float = 0.0,
    ) -> Answer:
        """As of each client. With ``wait_s``, the node that is asked holds a read at the end of the queue for so long,
        and answers as soon as there is a message; with an ok answer without messages when the time is over."""


@runtime_checkable
class CanHoldReads(Protocol):
    """Optional power of a driver: nodes hold reads at the end of a queue, see :class:`WaitingReads`."""

    def waiting_reads(self, network: Network, name: str) -> WaitingReads:
        """Return a client under this name, to which link rules apply."""


class Topics(Protocol):
    """A client that creates topics and asks for them. Each call is one request and ends as those of
    :class:`chaos.driver.Client` do."""

    async def create(self, topic: str, queues: int) -> Answer:
        """Create a topic with this number of queues; one that exists stays as it is. Ok: it is there from now on."""

    async def find(self, topic: str) -> Answer:
        """``value["queues"]``: how many queues the topic has, as clients see it; 0: there is no such topic."""


@runtime_checkable
class CanCreateTopics(Protocol):
    """Optional power of a driver: clients create topics in mid-run, see :class:`Topics`."""

    def topics(self, network: Network, name: str) -> Topics:
        """Return a client under this name, to which link rules apply."""


class DeletesTopics(Topics, Protocol):
    """Topics that can be deleted, too."""

    async def delete(self, topic: str) -> Answer:
        """Delete a topic and all that it holds. Ok: it is gone until it is created again, and also if it never was."""


@runtime_checkable
class CanDeleteTopics(Protocol):
    """Optional power of a driver: clients delete topics in mid-run, see :class:`DeletesTopics`."""

    def deleting_topics(self, network: Network, name: str) -> DeletesTopics:
        """Return a client under this name, to which link rules apply."""


class Operator(Protocol):
    """An operator who switches masters with the system's own admin tool, and looks afterwards who is the master. Each
    call is one request and ends as those of :class:`chaos.driver.Client` do; what counts of a switch is what the tool
    said of it."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of replicas that have masters."""

    async def elect(self, group: str, target: str) -> Answer:
        """Ask for the node ``target`` to become the master of its group. Raises :class:`chaos.ops.Failed` when the tool
        said that this was not done."""

    async def find_master(self, group: str) -> Answer:
        """``value``: ``master`` (a node, "" for none), its ``epoch``, and the nodes that are ``in_sync``, as the
        controllers' leader has them."""


@runtime_checkable
class CanBeOperated(Protocol):
    """Optional power of a driver: its system has a tool by which operators switch masters, see :class:`Operator`."""

    def operator(self, network: Network, name: str) -> Operator:
        """Return an operator under this name, to whose tool link rules apply; looks are the harness's own requests."""


class Objects(Protocol):
    """A client of a key-value store, whose keys nobody but the workload ever changes.

    An object is two keys. :func:`text_key` holds a text, which is read and written. :func:`set_key` holds a set of
    small numbers with a version, which is read, and replaced by compare-and-set on the version. Any store with versions
    can hold both as plain values (etcd, ZooKeeper); the controllers of a broker system can hold exactly these two.
    Each call is one request to one node and ends as those of :class:`chaos.driver.Client` do; ``Answer.value`` is what
    was seen."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers, each of which can be asked."""

    async def create(self, name: str, node: str, *, numbers: int) -> Answer:
        """Make both keys of an object, with the text :data:`FIRST_TEXT`, the set :data:`FIRST_SET` and the version
        :data:`FIRST_VERSION`. Its sets will hold the number 1, and others up to ``numbers``. Asking again changes
        nothing."""

    async def read(self, key: str, node: str) -> Answer:
        """``value``: a text, or a sorted list of numbers with its ``version`` besides. Where there is no such key the
        value is None, the version 0."""

    async def write(self, key: str, node: str, value: str) -> Answer:
        """Replace a text."""

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: Sequence[int]) -> Answer:
        """Replace a set if its version is ``expected``; ``version`` is then the new one, higher by 1. Raises
        :class:`chaos.ops.Failed` with ``refused`` = True when the version was another one at that moment."""


@runtime_checkable
class CanHoldObjects(Protocol):
    """Optional power of a driver: its system is a key-value store for a workload, see :class:`Objects`."""

    def objects(self, network: Network, name: str) -> Objects:
        """Return a client under this name, to which link rules apply."""


class Limits(Protocol):
    """A client that asks for what lies at the limits of a system, or beyond them: the greatest value that is taken, the
    first that is not, forms that few clients use, and what can't be understood at all. The system's own documents say
    how each of these questions is answered.

    A node that answered says so in ``Answer.value``: ``expected`` is the documented answer in a few words, ``told`` the
    actual one in the same words. A third value, ``kept`` = True, says that it was asked for what it had promised to
    keep on its disk; then a fault that changes disks excuses it."""

    @property
    def questions(self) -> Mapping[str, Sequence[str]]:
        """The nodes that each question is for, by its name. "" stands for the node that serves writes at the time."""

    @property
    def messages(self) -> Sequence[str]:
        """The names of other questions: messages that are taken, or must be refused."""

    async def ask(self, question: str, node: str) -> Answer:
        """Ask once. Ok: there was an answer. Raises :class:`chaos.ops.Failed` where the node said that it can't answer
        now, and :class:`chaos.ops.Unknown` where no answer came."""

    async def send_question(self, question: str, queue: QueueRef, key: str, body: bytes) -> Answer:
        """As :meth:`chaos.driver.Client.send`. A refusal that is an answer raises :class:`chaos.ops.Failed`, whose
        answer has ``expected`` and ``told``."""


@runtime_checkable
class HasLimits(Protocol):
    """Optional power of a driver: its system's limits are documented, see :class:`Limits`."""

    def limits(self, network: Network, name: str) -> Limits:
        """Return a client under this name, to which link rules apply."""


class Metadata(Protocol):
    """A client of the metadata that a system keeps in one log, and of the views that other nodes have of it.

    An entry has a key, ``KIND/NAME`` with one of ``kinds``, and a version that counts its changes, its deletion
    included; 0 is an entry that never was. The revision counts the changes of all entries. A value is a number from 1
    on, of which the system makes what its entries hold, or None where there is no such entry. Each call is one request
    to one node and ends as those of :class:`chaos.driver.Client` do. ``Answer.value`` has ``version``, ``revision``
    and, of what was read, ``value``."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers that keep the log."""

    @property
    def viewers(self) -> tuple[str, ...]:
        """The nodes that follow it, each with a view of its own."""

    @property
    def kinds(self) -> tuple[str, ...]: ...

    async def read(self, key: str, node: str) -> Answer:
        """Return what the log says now: not older than anything that was done before this call."""

    async def write(self, key: str, node: str, value: int | None) -> Answer:
        """Replace an entry, whatever it was; None deletes it."""

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: int | None) -> Answer:
        """Replace an entry that has the version ``expected``. Raises :class:`chaos.ops.Failed` with ``refused`` = True
        when the version was another one at that moment."""

    async def view(self, key: str, node: str) -> Answer:
        """Return what a viewer knows, as of ``revision`` (-1: it doesn't say). ``content`` identifies the value:
        :func:`chaos.workload.body_hash` of the JSON that came, with sorted keys and no spaces; -1 for none."""


@runtime_checkable
class CanKeepMetadata(Protocol):
    """Optional power of a driver: its system keeps metadata in a log that other nodes follow, see :class:`Metadata`.
    Its nodes trace each change (``metadata``, ``docs/history.md``)."""

    def metadata(self, network: Network, name: str) -> Metadata:
        """Return a client under this name, to which link rules apply."""


class Locks(Protocol):
    """A client of locks that the system lends for a time. Who holds one renews it; when no renewal has come for the
    time that was agreed, the system gives it to the next client. Nobody has to make a lock: a new one is free. Each
    call is one attempt and ends as those of :class:`chaos.driver.Client` do."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The servers, each of which can be asked."""

    async def acquire(self, name: str, node: str, *, lease_s: float) -> Answer:
        """Take a lock, waiting for it no longer than about a second. Ok: it is ours until ``lease_s`` after the call
        began, and ``value["token"]`` is a number that grows with each holder. Raises :class:`chaos.ops.Failed` when
        another client kept it."""

    async def renew(self, name: str, node: str) -> Answer:
        """Keep the lock that we hold until ``lease_s`` after this call began. Raises :class:`chaos.ops.Failed` when it
        is not ours any more."""

    async def release(self, name: str, node: str) -> Answer:
        """Give the lock back. Ok too when it is not ours any more."""


@runtime_checkable
class CanLendLocks(Protocol):
    """Optional power of a driver: its system lends locks, see :class:`Locks`."""

    def locks(self, network: Network, name: str) -> Locks:
        """Return a client under this name, to which link rules apply. It holds each lock at most once at a time."""
