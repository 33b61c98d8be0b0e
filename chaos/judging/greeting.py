"""Ask a stand-alone master whether it takes us, before a session is begun there.

Spark itself tries for a minute and then says it in the words of its network library. It goes through Spark's own RPC,
which is no public interface: where it has changed, nothing is asked, and a session just begins.
"""

from __future__ import annotations

from typing import Any

from chaos.errors import MachineError
from chaos.judging.masters import LOCALHOST, SECRET, SECRET_FILE, Master, MasterKind
from chaos.judging.spark_errors import sentence

#: The name by which a master is asked for at its address.
ENDPOINT = "Master"
#: A master on a busy machine may take seconds; what is none may never say anything.
TIMEOUT_S = 30
_NO_OPTION = "$lessinit$greater$default$2", "$lessinit$greater$default$3"


def greet(jvm: Any, conf: Any, master: Master) -> None:
    """Check that one of the masters answers as one. Raises :class:`MachineError`, with a sentence, when none does."""
    if master.kind is not MasterKind.STANDALONE:
        return
    problems = []
    for host, port in master.addresses:
        problem = _ask(jvm, conf, host, port, bound_to=LOCALHOST if master.on_loopback else "0.0.0.0")
        if not problem:
            return
        problems.append(f"what listens at {host}:{port} {problem}")
    raise MachineError("; ".join(problems))


def _ask(jvm: Any, conf: Any, host: str, port: int, *, bound_to: str) -> str:
    """Return how it refuses us; "" when it is a master and takes us, or when we can't ask."""
    from py4j.protocol import Py4JError

    try:
        spark = jvm.org.apache.spark
        own_conf = jvm.org.apache.spark.SparkConf(False)
        for name, value in conf.getAll():
            own_conf.set(name, value)
        for name in ("spark.rpc.lookupTimeout", "spark.network.auth.rpcTimeout"):
            own_conf.set(name, f"{TIMEOUT_S}s")
        manager = spark.SecurityManager(own_conf, *(getattr(spark.SecurityManager, name)() for name in _NO_OPTION))
        environment = spark.rpc.RpcEnv.create("stormproof", bound_to, 0, own_conf, manager, True)
        address = spark.rpc.RpcAddress(host, port)
    except (Py4JError, TypeError):  # Spark's own classes have changed
        return ""
    try:
        environment.setupEndpointRef(address, ENDPOINT)
    except Py4JError as error:
        return _refusal(str(error), has_secret=conf.contains(SECRET))
    finally:
        environment.shutdown()
    return ""


def _refusal(text: str, *, has_secret: bool) -> str:
    if "timed out" in text or "TimeoutException" in text:  # of the lookup, or of the greeting before it
        return f"did not answer as a Spark master does within {TIMEOUT_S} s"
    if "Failed to connect" in text:
        return "can't be reached any more"
    if "RpcEndpointNotFound" in text or "Cannot find endpoint" in text:
        return "is a Spark process, but no master"
    if has_secret:
        return f"does not take our secret: give the one that it was started with (--conf {SECRET_FILE}=FILE)"
    if "Sasl" in text:
        return f"expects a secret: give the one that it was started with (--conf {SECRET_FILE}=FILE)"
    return f"can't be spoken with: {sentence(Exception(text))}"
