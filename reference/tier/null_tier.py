"""The tier of a broker that has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chaos.node import Env
from reference.tier.interface import BrokerInterface, Level, TierAnswer, View
from reference.wire.command import Command


class NullTier:
    """Does nothing and holds nothing; see :class:`reference.tier.interface.TierInterface`."""

    def __init__(self, options: Mapping[str, object]) -> None:
        del options

    @property
    def level(self) -> Level:
        return Level.NOT_IN_DISK

    def recover(self, env: Env, broker: BrokerInterface) -> None: ...

    def promoted(self, env: Env) -> None: ...

    def demoted(self, env: Env) -> None: ...

    def confirmed(self, env: Env) -> None: ...

    def message(self, env: Env, source: str, message: Command) -> bool:
        return False

    def timer(self, env: Env, name: str) -> bool:
        return False

    def closed(self, env: Env, peer: str) -> None: ...

    def received(self, env: Env, view: View) -> None: ...

    @property
    def settled(self) -> bool:
        return True

    def view(self, queue: int) -> View | None:
        return None

    def views(self) -> Mapping[int, View]:
        return {}

    def read(
        self,
        env: Env,
        queue: int,
        offset: int,
        *,
        max_bytes: int,
        max_count: int,
        then: Callable[[Env, TierAnswer], None],
    ) -> None:
        """Nothing is tiered."""
        then(env, TierAnswer())
