"""How a plan is started, one row per launcher; each loads only when chosen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ...cluster.targets import Target
from ..events import Event
from ..plan import LaunchPlan, ResolvedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHandle:
    """A small saved value: what the launcher calls the run."""

    launcher: str
    job_id: str


class Job(Protocol):
    """A submitted run, in the process that submitted it."""

    @property
    def handle(self) -> JobHandle:
        """What the launcher calls it."""

    @property
    def ended(self) -> bool:
        """Whether no further event can come."""

    def events(self, timeout_s: float) -> Iterator[Event]:
        """What came in; waits at most `timeout_s` for the first of it."""

    def request_stacks(self, *, abort: bool) -> None:
        """Ask every living rank for its stacks; they come as events, one per rank.

        `abort`: a program that cannot give them is aborted, so that Python prints them.
        """

    def stop(self, reason: str, *, grace_s: float) -> None:
        """Ask every rank to end; kill after the grace. Can be called again with less."""

    def close(self) -> None:
        """End at once whatever is left, and let go of it. Always called, also after `ended`."""


class Starter(Protocol):
    """Starts plans in one way."""

    def submit(self, plan: LaunchPlan) -> Job:
        """Start the plan.

        Raises:
            LaunchError: if not even an agent can be started.
        """


class Launcher(Starter, Protocol):
    """One way to reach hosts, from the target's text to a running plan."""

    def resolve(self, target: Target) -> ResolvedTarget:
        """Ask the target's hosts what only they know.

        Raises:
            LaunchError: naming every host that cannot take part, and why.
        """

    def close(self) -> None:
        """Let go of connections that are kept from one run to the next."""


def _local() -> Launcher:
    from .local import LocalLauncher  # noqa: PLC0415  # loaded when chosen

    return LocalLauncher()


def _ssh() -> Launcher:
    from .ssh import SshLauncher  # noqa: PLC0415  # loads paramiko

    return SshLauncher()


LAUNCHERS: dict[str, Callable[[], Launcher]] = {"local": _local, "ssh": _ssh}


@contextmanager
def opened(target: Target) -> Iterator[tuple[Launcher, ResolvedTarget]]:
    """The target's launcher, its hosts asked; closed at the end.

    Raises:
        LaunchError: naming every host that cannot take part, and why.
    """
    launcher = LAUNCHERS[target.launcher]()
    try:
        yield launcher, launcher.resolve(target)
    finally:
        launcher.close()
