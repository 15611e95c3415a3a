"""The keys to log in with: the agent's and those in files, in the order that ssh tries them."""

from __future__ import annotations

import copy
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH

from .certificates import parse_certificate
from .config import SshSettings
from .deadline import Deadline
from .key_files import KeyFile, look_at, public_key_of
from .key_ring import KeyRing
from .known_hosts import fingerprint

_CLASSES: dict[str, type[paramiko.PKey]] = {
    "ssh-rsa": paramiko.RSAKey,
    "ssh-ed25519": paramiko.Ed25519Key,
    "ecdsa": paramiko.ECDSAKey,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A key to try, and how messages call it."""

    key: paramiko.PKey
    label: str


class Agent(AgentSSH):
    """A connection to a running ssh-agent; closed with the log-in, never forwarded."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        """Ask it for its keys.

        Raises:
            OSError, paramiko.SSHException: if there is no agent, or it gives no answer.
        """
        super().__init__()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(path))
            self._connect(connection)  # type: ignore[attr-defined]  # absent in the stubs
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Leave the agent."""
        self._close()  # type: ignore[attr-defined]


def read_key(file: KeyFile, passphrase: str | None) -> paramiko.PKey:
    """The private key of a file.

    Raises:
        ValueError: saying why it cannot be used.
    """
    kind = "ecdsa" if (file.key_type or "").startswith("ecdsa-") else file.key_type
    key_class = _CLASSES.get(kind or "")
    if key_class is None:
        raise ValueError(
            f"a key of type {file.key_type or 'unknown'} is not read here: add it to the "
            "ssh-agent, or set client: openssh"
        )
    try:
        return key_class.from_private_key_file(str(file.path), passphrase)
    except (paramiko.SSHException, OSError, ValueError) as error:
        raise ValueError(f"cannot be read: {error}") from error


def candidates(
    settings: SshSettings, ring: KeyRing[paramiko.PKey], agent: Agent | None, deadline: Deadline
) -> Iterator[Candidate]:
    """The keys to try, lazily: a passphrase is only asked for once nothing before it served.

    The order is ssh's: configured keys that the agent holds, the agent's others, then files.
    Certificates go before their bare keys.
    """
    files = [file for path in settings.identity_files if (file := look_at(path)) is not None]
    held = {key.blob: key for key in agent.get_keys()} if agent is not None else {}
    wanted = [file.public_key for file in files]
    wanted += [_beside(path) for path in settings.identity_files]
    certificates = [
        *settings.certificate_files,
        *(path.with_name(f"{path.name}-cert.pub") for path in settings.identity_files),
    ]
    tried = [blob for blob in dict.fromkeys(wanted) if blob in held]
    if not settings.identities_only:
        tried += [blob for blob in held if blob not in tried]
    for blob in tried:
        key = held[blob]
        yield from _with_certificates(key, _agent_label(key), certificates)
    for file in files:
        if file.public_key in held:
            continue
        with deadline.paused():
            loaded = ring.load(file, read_key)
        if loaded is not None:
            label = f"{file.path} {fingerprint(loaded.asbytes())}"
            yield from _with_certificates(loaded, label, certificates)


def _with_certificates(
    key: paramiko.PKey, label: str, certificates: list[Path]
) -> Iterator[Candidate]:
    blob = _blob(key)
    for path in dict.fromkeys(certificates):
        encoded = public_key_of(path)
        certificate = parse_certificate(encoded) if encoded else None
        if certificate is not None and certificate.public_key == blob:
            yield Candidate(key=_certified(key, path), label=f"{label} with {path}")
    yield Candidate(key=key, label=label)


def _certified(key: paramiko.PKey, certificate: Path) -> paramiko.PKey:
    if isinstance(key, paramiko.AgentKey):  # copying one never ends: it looks itself up in itself
        key = paramiko.AgentKey(key.agent, key.blob)
    else:
        key = copy.copy(key)
    key.load_certificate(str(certificate))
    return key


def _beside(path: Path) -> bytes | None:
    return public_key_of(path.with_name(f"{path.name}.pub"))


def _blob(key: paramiko.PKey) -> bytes:
    return key.blob if isinstance(key, paramiko.AgentKey) else key.asbytes()


def _agent_label(key: paramiko.AgentKey) -> str:
    comment = getattr(key, "comment", "")
    return f"ssh-agent {comment or key.get_name()} {fingerprint(key.blob)}"
