"""A container of ours inside the network of somebody else's, which may have no tools of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chaos.errors import DeploymentError, HostLost
from chaos.machines import iptables
from chaos.machines.docker.engine import CONFLICT, MACHINE, NODE, PART, engine_errors, image_name
from chaos.machines.docker.root_shell import RootShell

if TYPE_CHECKING:
    from docker import DockerClient


class Helper:
    """It shares nothing but the network with the container ``target``, whose packets it filters. It stays in that
    network also when the container is started again, in another one. All calls block."""

    def __init__(self, client: DockerClient, target: str, node: str, labels: Mapping[str, str]) -> None:
        """Raise :class:`HostLost` when the container doesn't run."""
        from docker.errors import APIError

        with engine_errors():
            self._container = client.containers.create(
                image_name(),
                ["infinity"],
                entrypoint=["sleep"],
                labels={**labels, NODE: node, PART: MACHINE},
                network_mode=f"container:{target}",
                user="0:0",
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN", "NET_RAW"],  # the older flavour of iptables opens a raw socket
                read_only=True,
                tmpfs={"/run": ""},
                security_opt=["no-new-privileges"],
            )
        try:
            with engine_errors():
                try:
                    self._container.start()
                except APIError as error:
                    if error.response is not None and error.response.status_code in (CONFLICT, 404):
                        raise HostLost(f"the container of node {node} does not run") from error
                    raise
            self._shell = RootShell(client, self._container.id, node)
        except BaseException:
            self._remove()
            raise

    def run(self, command: Sequence[str], given: str = "") -> tuple[int, str]:
        """Run a command as root in the network, given this on its standard input; return its exit code and output."""
        return self._shell.run(command, given)

    def succeeds(self, command: Sequence[str]) -> bool:
        """Run a command there, whatever else runs; return whether it ended well."""
        with engine_errors():
            return bool(self._container.exec_run(list(command)).exit_code == 0)

    def clear(self, stem: str) -> bool:
        """Take down all chains of a run in this network; return whether there were any. To ask a flavour makes its
        tables, so the next one is asked only when the first has nothing."""
        for flavour in iptables.FLAVOURS:
            code, saved = self.run(iptables.saving(flavour))
            batch = iptables.left_of(stem, saved) if code == 0 else ""
            if batch:
                code, output = self.run(iptables.restore(flavour), batch)
                if code:
                    raise DeploymentError(f"the packet filter refused: {output}")
                return True
        return False

    def close(self) -> None:
        """Remove the container; the network stays as it is."""
        self._shell.close()
        self._remove()

    def _remove(self) -> None:
        from docker.errors import NotFound

        with engine_errors():
            try:
                self._container.remove(force=True, v=True)
            except NotFound:
                pass
