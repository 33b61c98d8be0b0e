"""What the report's page says besides its figures."""

from __future__ import annotations

from benchmarks.controllers.bench import HEARTBEATS_PER_S, IN_FLIGHT, MIXED_READS_PER_S, MIXED_WRITES
from benchmarks.controllers.failover import BROKER_TIMEOUT_MS, GROUPS
from benchmarks.controllers.sampled import EVERY_S

INTRODUCTION = """\
# The controllers, measured and judged

Three kinds of controllers do the same work on the same machine, with the same load generator and the same requests on
the wire: the reference system's in its modes `classic` and `parallel`
([what they are](../../docs/design/reference.md)), and Apache RocketMQ 5.5.0's own. `make bench-controller` measures and
judges what is not known yet, and writes this page."""

READ_NOTE = """\
*register*: a replica that begins a new life, in turns over all groups. *alter*: the second replica leaves its
SyncStateSet, or comes back. *elect*: a planned switch to the other replica; the change of the SyncStateSet that makes
it possible is a request of its own, whose processor time counts here, too. *replica info* goes to the leader, and with
`parallel` to all three controllers. `classic` and `parallel` answer linearizably. RocketMQ's leader answers from its
memory by default, and a leader that was deposed may answer from old state; with `processReadEvent=true` (*logged
reads*) each read waits for an entry of the log. `classic` and `parallel` answer a change when a majority's disks have
it. RocketMQ's controllers answer when a majority's memory has it (DLedger writes to the disk a little later)."""

HOW = f"""\
* Each kind is three processes on one machine, connected through the loopback interface, with the same disk. RocketMQ's
  are one JVM each, 512 MiB of heap, everything else as the JVM chooses; they were warmed up by the same load first.
* {IN_FLIGHT} requests are in flight on eight connections (fewer where *alter* and *elect* have fewer groups). The kinds
  take turns, slice by slice; RocketMQ's JVMs, which take a quarter of a core when idle, are stopped while others are
  measured.
* All brokers' heartbeats go to each controller meanwhile, once a second up to {HEARTBEATS_PER_S // 3} groups, and
  {HEARTBEATS_PER_S} a second in all where there are more.
* *Beside changes and heartbeats*: {MIXED_READS_PER_S} reads a second, whatever their latency, beside {MIXED_WRITES}
  clients that register without a pause. So each kind has as many changes as it can bear.
* The load generator is one process on the same two cores. Its share stands in the last column: where the sum is near
  two cores, the machine was the limit.
* The groups were registered before, and the controllers started from that state: `classic` from what `parallel` had
  written, since both write the same log. Nobody is told of elections, since the brokers have no addresses."""

FAILOVER = f"""\
{GROUPS:,} groups of two replicas that send a heartbeat a second, each on a connection of its own with the leading
controller. At one moment some masters end: *killed* closes their connections, as the operating system does for a
process that dies; *silent* leaves them open, and heartbeats time out after {BROKER_TIMEOUT_MS // 1000} s. A client asks
again and again who is master; a group's time ends with the answer that names the other replica."""

MEMORY = """\
Of the controller that uses most: with RocketMQ what is left in the heap after a collection, else what the process has
got from the system. Both modes keep the same state."""

MODEL = """\
There are two cores here, for three controllers and the load generator. What more cores would give is computed, not
measured: throughput is bounded by the resource that is busiest for one request. On this machine that is either both
cores together, or the one core that a single process can use. With a core for each controller (and generators enough)
it is the controller that is busiest. Processor times are those that were measured while one, two and three controllers
answered reads. The first table shows how well the model predicts what this machine did; the second one what it says of
more cores. It knows no waiting, so its figures are upper bounds; only their ratio is meant."""

PROFILE = f"""\
The leader in mode `parallel`, sampled each {EVERY_S * 1000:g} ms of its processor time under the load of the tables
above. A function of Python's own, or a system call, counts for the code of the project that has called it."""

LEFT_OUT = """\
* The full rate of heartbeats of 1,000 and more groups (three a second and group, to three controllers): a generator on
  the same two cores can't send it.
* RocketMQ's JRaft controller, RocketMQ's notifications to brokers, more than one load generator, other machines."""

EXPLORED = """\
Three members of Raft, the controllers' own code, from some beginnings: all orders in which messages are delivered,
syncs end, timeouts pass, members crash (with and without what was not synced) and connections break, so much of each as
the beginning allows (`benchmarks/exploration/scopes.py`). In each state election safety, log matching, leader
completeness, state-machine safety and reads are checked. Shortest paths come first. *Depth* is the number of events on
the longest of them; *the nearest states* means that the exploration ended before it had them all. Snapshots, leases,
and changes of leader and members on demand are not explored."""

REAL_BROKERS = """\
The same code carried RocketMQ 5.5.0's own brokers through ten minutes of kills and switches, as processes:
[what came out](../../docs/rocketmq.md#mixed)."""

NOT_TRIED = """\
* Five controllers, except where an example says so; other disks than this machine's; real networks.
* A member of the group that lies: Raft assumes that members crash, and don't deceive.
* Every interleaving of a whole cluster: seeds are samples, and no number of them proves that there is no bug."""
