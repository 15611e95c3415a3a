"""From a connected socket to a session that is logged in: handshake, host key, user key."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import paramiko

from .config import SshSettings
from .deadline import Deadline
from .failures import handshake_failed, login_broke_off, login_refused, not_by_key
from .host_keys import HostKeys, Shown
from .key_ring import KeyRing
from .paramiko_session import KEY_ALGORITHMS, Session
from .user_keys import Agent, candidates

_BANNER_S = 15.0
_HANDSHAKE_S = 15.0
_KEY_S = 30.0
_AGENT_S = 10.0


def log_in(
    sock: socket.socket | paramiko.Channel,
    settings: SshSettings,
    host_keys: HostKeys,
    *,
    ring: KeyRing[paramiko.PKey],
    deadline: Deadline,
) -> tuple[Session, tuple[str, ...]]:
    """A session that is logged in, and what the user should know of it.

    Raises:
        ConnectError: why not; `transient` if the server may only be busy.
    """
    session = Session(sock, host_keys.order(KEY_ALGORITHMS))
    try:
        _shake_hands(session, settings, deadline)
        note = host_keys.check(_shown(session), now_s=time.time(), verify=_verify)
        _authenticate(session, settings, ring, deadline)
    except BaseException:
        session.close()
        raise
    return session, (f"{settings.host}: {note}",) if note else ()


def _shake_hands(session: Session, settings: SshSettings, deadline: Deadline) -> None:
    session.banner_timeout = deadline.within(_BANNER_S)
    session.handshake_timeout = deadline.within(_HANDSHAKE_S)
    try:
        session.start_client(timeout=deadline.left_s)
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise handshake_failed(settings, session, error) from error
    if not session.initial_kex_done:
        raise handshake_failed(settings, session, TimeoutError("timed out"))


def _shown(session: Session) -> Shown:
    key = session.get_remote_server_key()
    certificate = key.public_blob.key_blob if key.public_blob is not None else None
    return Shown(key=key.asbytes(), certificate=certificate)


def _verify(authority: bytes, signed: bytes, signature: bytes) -> bool:
    """Whether the authority signed this; SHA-1 signatures are not accepted, as with OpenSSH."""
    key_type = paramiko.Message(authority).get_text()
    if paramiko.Message(signature).get_text() == "ssh-rsa":
        return False
    try:
        key = paramiko.PKey.from_type_string(key_type, authority)
        return bool(key.verify_ssh_sig(signed, paramiko.Message(signature)))
    except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError):
        return False


def _authenticate(
    session: Session, settings: SshSettings, ring: KeyRing[paramiko.PKey], deadline: Deadline
) -> None:
    tried: list[str] = []
    with _agent(settings) as (agent, trouble):
        troubles = [trouble] if trouble else []
        for candidate in candidates(settings, ring, agent, deadline):
            session.auth_timeout = deadline.within(_KEY_S)
            tried.append(candidate.label)
            try:
                missing = session.auth_publickey(settings.user, candidate.key)
            except paramiko.BadAuthenticationType as error:
                raise not_by_key(settings, error.allowed_types) from error
            except (paramiko.SSHException, EOFError, OSError) as error:
                if not session.is_active() or deadline.passed:
                    raise login_broke_off(settings, session, tried, error) from error
                if not isinstance(error, paramiko.AuthenticationException):
                    troubles.append(f"{tried.pop()}: {error}")
                continue
            if missing:
                raise not_by_key(settings, missing, after=candidate.label)
            return
    troubles += [ring.troubles[f] for f in settings.identity_files if f in ring.troubles]
    raise login_refused(settings, tried, troubles)


@contextmanager
def _agent(settings: SshSettings) -> Iterator[tuple[Agent | None, str | None]]:
    """The agent, if one answers; else why one that is named does not."""
    if settings.identity_agent is None:
        yield None, None
        return
    try:
        agent = Agent(settings.identity_agent, _AGENT_S)
    except (OSError, EOFError, paramiko.SSHException) as error:
        yield None, f"no ssh-agent answers at {settings.identity_agent} ({error})"
        return
    with closing(agent):
        yield agent, None
