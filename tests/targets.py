"""Targets as tests need them."""

from rankrun.cluster.targets import parse_target
from rankrun.jobs.launchers.local import LocalLauncher
from rankrun.jobs.plan import ResolvedTarget


def local_target(ranks: int) -> ResolvedTarget:
    """This machine with so many ranks."""
    return LocalLauncher().resolve(parse_target(f"local:{ranks}"))
