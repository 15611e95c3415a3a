"""A connection to a host through the `ssh` program, for sites whose log-in only it can do.

One master connection for each host (ssh_config(5), ControlMaster); programs run through it
without another log-in. A master keeps to a folder that only we may enter, and leaves by itself
when nothing has used it for a while, so none outlives a controller that was killed.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import ConnectError
from ..hosts import Login
from .config import SshSettings, resolve_ssh, ssh_arguments
from .connections import Connections
from .deadline import Deadline
from .openssh_channel import OpensshChannel
from .quoting import LOGIN_COMMAND
from .running import run_to_end
from .started import StartedChannel
from .transport import Completed

# An idle master ends after so many seconds.
_PERSIST_S = 60
_EXIT_S = 5.0

# Forwarding of any kind stays off, whatever the config says: it is not what a run is for.
_OPTIONS = ("-a", "-x", "-T", "-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no")

# What ssh says where another try may do better.
_BUSY = ("kex_exchange_identification", "Connection reset by", "Connection closed by")


def connect_with_openssh(
    name: str, login: Login, connections: Connections, deadline: Deadline
) -> "OpensshTransport":
    """See `connect`."""
    if shutil.which("ssh", path=connections.environment.get("PATH")) is None:
        raise ConnectError(f"{name}: there is no ssh program on PATH: install openssh-client")
    settings = resolve_ssh(name, login, environment=connections.environment)
    master = Master(settings, login, connections.environment)

    def attempt() -> None:
        server = (settings.proxy_jump, settings.address, settings.port)
        with connections.pacer.slot(server, name, deadline):
            if connections.ask is None:
                master.start(deadline, at_terminal=False)
                return
            with connections.terminal, deadline.paused():
                master.start(deadline, at_terminal=True)

    try:
        connections.pacer.retry(attempt, deadline)
    except BaseException:
        master.end()
        raise
    return OpensshTransport(settings, master)


class Master:
    """The one connection that is logged in, behind a socket in a folder of its own."""

    def __init__(self, settings: SshSettings, login: Login, environment: Mapping[str, str]) -> None:
        """Nothing is started yet."""
        self.host = settings.host
        self._environment = dict(environment)
        # In /tmp whatever TMPDIR says: the path of a socket has at most 107 characters.
        self._folder = Path(tempfile.mkdtemp(prefix="rankrun-ssh-", dir="/tmp"))
        self._socket = self._folder / "master"
        self._arguments = [*_OPTIONS, *ssh_arguments(login, environment)]

    def start(self, deadline: Deadline, *, at_terminal: bool) -> None:
        """Log in; `at_terminal`: ssh may ask there for a password or a code.

        Raises:
            ConnectError: in ssh's own words.
        """
        command = [
            *("ssh", "-M", "-N", "-f", "-o", f"ControlPersist={_PERSIST_S}"),
            *("-o", f"BatchMode={'no' if at_terminal else 'yes'}"),
            *("-o", f"ConnectTimeout={max(1, int(deadline.left_s))}"),
            *self._to_host(),
        ]
        # The master that stays keeps its standard error, so that goes to a file and not a pipe.
        said = self._folder / "said"
        with said.open("wb") as log:
            try:
                code = subprocess.run(
                    command,
                    stdin=None if at_terminal else subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    env=self._environment,
                    timeout=None if at_terminal else deadline.within(deadline.seconds),
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                raise ConnectError(
                    f"{self.host}: ssh did not log in within {deadline.seconds:.0f} s; "
                    f"see where it waits with: ssh -v {self.host}"
                ) from None
        if code != 0:
            raise self._refused(said.read_text(errors="backslashreplace"))

    def command(self, program: str) -> list[str]:
        """An `ssh` that runs a program over this connection, and never makes one of its own."""
        return ["ssh", "-o", "ControlMaster=no", "-o", "BatchMode=yes", *self._to_host(), program]

    def end(self) -> None:
        """Close the connection, and leave no file."""
        if self._socket.exists():
            with suppress(subprocess.TimeoutExpired, OSError):
                subprocess.run(
                    ["ssh", "-O", "exit", *self._to_host()],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    env=self._environment,
                    timeout=_EXIT_S,
                    check=False,
                )
        shutil.rmtree(self._folder, ignore_errors=True)

    def _to_host(self) -> list[str]:
        return ["-S", str(self._socket), *self._arguments, "--", self.host]

    def _refused(self, said: str) -> ConnectError:
        words = " ".join(said.split()) or "ssh gave no reason"
        return ConnectError(
            f"{self.host}: {words}; see for yourself with: ssh -v {self.host}",
            transient=any(each in said for each in _BUSY),
        )


class OpensshTransport:
    """Programs on one host, each through an `ssh` of its own over the master."""

    def __init__(self, settings: SshSettings, master: Master) -> None:
        """`master` is logged in."""
        self._settings = settings
        self._master = master

    def open(self, command: str) -> StartedChannel:
        """Start a command of POSIX sh."""
        process = subprocess.Popen(
            self._master.command(LOGIN_COMMAND),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        return StartedChannel(OpensshChannel(process), command)

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        """Run a command of POSIX sh to its end."""
        return run_to_end(self.open(command), self._settings.host, stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        """End the connection."""
        self._master.end()

    @property
    def peer_address(self) -> str:
        """What the config says is dialled; ssh tells no more."""
        return self._settings.address

    @property
    def local_address(self) -> str | None:
        """Not known."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """What ssh has to say it says itself."""
        return ()
