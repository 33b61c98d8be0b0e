"""What every run needs and what isn't the system: imported once, in the process that workers are forked from."""

from chaos.judging.registry import registry

registry()
