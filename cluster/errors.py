"""The one exception tree. Each leaf says what, where, and the next move.

    RankrunError                 exit code 3: could not run
    ├── UsageError (ValueError)  exit code 2: the caller's mistake
    ├── RunFolderError           the run folder cannot be made, written or read
    ├── LaunchError              the agent or the ranks could not be started
    ├── ConnectError             a host cannot be reached or logged in to over SSH
    ├── OutputError              a document or a table cannot be written where it should go
    ├── BackendError             on a rank: no such backend or device as was asked for
    └── RefusedError             on a rank: the backend refuses what every backend does

Three are not for users to catch: StepError (RuntimeError) ends a rank of the suite with its
traceback; ProtocolError and CannotStartError stay inside the agent, which imports nothing of ours.

A failed rank or a wrong result is not an exception: it is data (an outcome, a finding).
"""

from .compat import StrEnum


class ExitCode:
    """Exit codes of every command; `launch` also passes on the first failing rank's own."""

    OK = 0
    CHECK_FAILED = 1
    USAGE = 2
    COULD_NOT_RUN = 3
    DEADLINE = 124
    INTERRUPTED = 130
    TERMINATED = 143


class RankrunError(Exception):
    """Something a user can read and act on; never shown with a traceback."""

    exit_code = ExitCode.COULD_NOT_RUN


class UsageError(RankrunError, ValueError):
    """A wrong option, target, size or name; lists the valid values."""

    exit_code = ExitCode.USAGE


class RunFolderError(RankrunError):
    """The run folder cannot be made, written or read."""


class LaunchError(RankrunError):
    """The agent or the ranks could not be started."""


class ConnectError(RankrunError):
    """A host cannot be reached or logged in to over SSH, or refuses to start a program.

    `transient`: the same attempt may well succeed a moment later (a server under load).
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        """`message` is one line that begins with the host."""
        super().__init__(message)
        self.transient = transient


class OutputError(RankrunError):
    """A document or a table cannot be written where it should go."""


def valid_values(values: type[StrEnum]) -> str:
    """The values of an enumeration as a message lists them: `a, b, c`."""
    return ", ".join(str(value) for value in values)
