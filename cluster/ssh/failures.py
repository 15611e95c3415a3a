"""Why a host could not be logged in to, in one line that ends with what to do."""

from __future__ import annotations

from collections.abc import Sequence

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from ..errors import ConnectError
from .config import SshSettings
from .paramiko_session import Session

# OpenSSH's words before it drops a connection: it has too many that are not logged in yet
# (MaxStartups), or has had too many bad ones from here (PerSourcePenalties).
_BUSY = ("Exceeded MaxStartups", "Not allowed at this time")


def handshake_failed(settings: SshSettings, session: Session, error: BaseException) -> ConnectError:
    """The connection was made, but there is no SSH session on it."""
    host, port = settings.host, settings.port
    if session.garbage and not any(line.startswith(_BUSY) for line in session.garbage):
        said = " / ".join(session.garbage)[:200]
        return ConnectError(f"{host}: port {port} is not an SSH server; it says {said!r}")
    if isinstance(error, IncompatiblePeer):
        return ConnectError(
            f"{host}: no algorithm in common ({error}): the server is old, or hardened; set "
            "client: openssh for this host"
        )
    cause = _cause(error)
    if isinstance(cause, (EOFError, ConnectionError)):
        busy = session.garbage[0] if session.garbage else session.farewell or _words(cause)
        return ConnectError(
            f"{host}: the server closes connections before the log-in ({busy}): it has too many "
            "at once (raise MaxStartups in its sshd_config), or refuses this machine "
            "(hosts.deny, PerSourcePenalties, a full disk or process table)",
            transient=True,
        )
    if isinstance(cause, TimeoutError):
        stage = "key exchange" if session.remote_version else "first line"
        return ConnectError(
            f"{host}: port {port} accepts connections, but no {stage} of SSH came in time: the "
            "host may be hung or overloaded, or the port is not SSH's",
            transient=True,
        )
    return ConnectError(f"{host}: the SSH handshake failed: {error}")


def login_refused(
    settings: SshSettings, tried: Sequence[str], troubles: Sequence[str]
) -> ConnectError:
    """The server took none of our keys."""
    user = settings.user
    if tried:
        why = f"none of these keys is accepted: {'; '.join(tried)}"
        add = f"add one to ~/.ssh/authorized_keys of {user} there (ssh-copy-id), or name the "
        add += "right user or key"
    else:
        why = "there is no key to try"
        add = "name one (IdentityFile in the ssh config, or key in the inventory), or ssh-add it"
    others = f" ({'; '.join(troubles)})" if troubles else ""
    return ConnectError(f"{settings.host}: cannot log in as {user}: {why}{others}; {add}")


def login_broke_off(
    settings: SshSettings, session: Session, tried: Sequence[str], error: BaseException
) -> ConnectError:
    """The connection ended, or time ran out, while keys were tried."""
    host, user = settings.host, settings.user
    if "too many authentication failures" in session.farewell.lower():
        return ConnectError(
            f"{host}: cannot log in as {user}: the server gave up after these keys: "
            f"{'; '.join(tried)}; name the right one with IdentityFile and set IdentitiesOnly yes"
        )
    if session.is_active():
        return ConnectError(
            f"{host}: no answer to the log-in as {user} in time: the host may be overloaded, or "
            "its directory service or home folder hangs",
        )
    return ConnectError(
        f"{host}: the server closed the connection during the log-in as {user} "
        f"({session.farewell or _words(_cause(error))}): its log says why",
        transient=not session.farewell,
    )


def not_by_key(
    settings: SshSettings, allowed: Sequence[str], *, after: str | None = None
) -> ConnectError:
    """The server wants something else than a key, or more."""
    what = f"after {after} it also wants" if after else "it does not take keys, only"
    return ConnectError(
        f"{settings.host}: cannot log in as {settings.user}: {what} {' or '.join(allowed)}; "
        "set client: openssh for this host, which can ask at the terminal"
    )


def _cause(error: BaseException) -> BaseException:
    """What paramiko met: it wraps what went wrong in the first line."""
    inner = error.__cause__ or error.__context__
    if type(error) is paramiko.SSHException and inner is not None:
        return _cause(inner)
    return error


def _words(error: BaseException) -> str:
    if isinstance(error, EOFError):
        return "closed by the server"
    return str(error) or type(error).__name__
