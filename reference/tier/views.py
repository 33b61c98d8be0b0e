"""What a replica knows of the manifests: the newest version of each that it has seen, kept on its disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

from chaos import events
from chaos.node import DiskFull, Env
from reference.tier.interface import View
from reference.tier.manifest import Manifest, ManifestError, view_of

TIMER = "tier-sync"

_FOLDER = "tier/views/"
_SYNC_DELAY_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A view together with the manifest that its content says."""

    view: View
    manifest: Manifest


class Views:
    """Views by queue. They are made durable lazily: one that a crash takes away is fetched again when it is needed.

    ``adopt(held, new)`` decides which of two views of a queue to hold.
    """

    def __init__(self, adopt: Callable[[View | None, View], View | None]) -> None:
        self._adopt = adopt
        self._known: dict[int, Known] = {}
        self.views: dict[int, View] = {}
        self._unsynced: dict[str, None] = {}

    def get(self, queue: int) -> Known | None:
        return self._known.get(queue)

    def recover(self, env: Env) -> None:
        """Load what the disk holds; a torn file is as good as none."""
        for path in env.disk.list(_FOLDER):
            data = env.disk.read(path)
            content = data[8 : 8 + int.from_bytes(data[4:8], "big")]
            if crc32(content).to_bytes(4, "big") != data[:4]:
                continue
            try:
                manifest = Manifest.decode(content)
            except ManifestError:
                continue
            self._hold(env, Known(view=view_of(manifest, content), manifest=manifest))

    def take(self, env: Env, view: View) -> bool:
        """Adopt a view if it is newer than the one held, and write it down."""
        held = self.views.get(view.queue)
        chosen = self._adopt(held, view)
        if chosen is None or chosen is held:
            return False
        try:
            manifest = Manifest.decode(chosen.content)
        except ManifestError:
            return False
        self._hold(env, Known(view=chosen, manifest=manifest))
        self._write(env, chosen)
        return True

    def _hold(self, env: Env, known: Known) -> None:
        view = known.view
        self._known[view.queue] = known
        self.views[view.queue] = view
        env.trace(
            events.TierView(
                queue=view.queue,
                offset=view.end,
                position=view.position,
                epoch=view.epoch,
                hash=view.hash,
                version=view.version,
            )
        )

    def _write(self, env: Env, view: View) -> None:
        path = f"{_FOLDER}{view.queue}"
        frame = crc32(view.content).to_bytes(4, "big") + len(view.content).to_bytes(4, "big") + view.content
        try:
            env.disk.write(path, 0, frame)
        except DiskFull:
            return  # the view is held in memory, and the store has it
        if not self._unsynced:
            env.set_timer(TIMER, _SYNC_DELAY_NS)
        self._unsynced[path] = None

    def timer(self, env: Env) -> None:
        """Make durable what was written; nothing waits for that."""
        paths = list(self._unsynced)
        self._unsynced.clear()
        if paths:
            env.disk.sync(paths)
