"""Whether the key that a server shows is the host's: what the known_hosts files say of it."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConnectError
from .certificates import SUFFIX, parse_certificate, why_not
from .config import SshSettings, Strict
from .known_hosts import (
    DEFAULT_PORT,
    KnownHosts,
    KnownKey,
    Marker,
    embedded_type,
    fingerprint,
    name_for,
    parse_known_hosts,
)

# The key types that a signature algorithm uses; the others have one of their own name.
_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_LOOPBACK = ("127.", "::1", "localhost")

Verify = Callable[[bytes, bytes, bytes], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a server showed. `key` is the plain public key, `certificate` what it came in."""

    key: bytes
    certificate: bytes | None = None

    @property
    def what(self) -> str:
        """For messages: type and fingerprint."""
        return f"{embedded_type(self.key)} {fingerprint(self.key)}"


class HostKeys:
    """What is known of one host's keys."""

    def __init__(self, settings: SshSettings, known: KnownHosts) -> None:
        """`known` holds the entries of the files that `settings` name."""
        self._settings = settings
        alias = settings.host_key_alias
        self._name = alias.lower() if alias else settings.address.lower()
        self._listed_name = self._name if alias else name_for(settings.address, settings.port)
        self._entries = known.about(self._listed_name)
        # A key that is listed without the port is good for the host too, as it is for ssh.
        self._plain = () if self._listed_name == self._name else known.about(self._name)

    def order(self, algorithms: Sequence[str]) -> list[str]:
        """These host key algorithms, those first that the known keys can answer."""
        entries = (*self._entries, *self._plain)
        types = {entry.key_type for entry in entries if entry.marker is Marker.HOST}
        known = [name for name in algorithms if ("ssh-rsa" if name in _RSA else name) in types]
        others = [name for name in algorithms if name not in known]
        if any(entry.marker is Marker.AUTHORITY for entry in entries):
            return [*(name + SUFFIX for name in algorithms), *known, *others]
        return known + others

    def check(self, shown: Shown, *, now_s: float, verify: Verify) -> str | None:
        """Nothing if the key is known to be the host's; a note if it was taken on trust.

        Raises:
            ConnectError: for a revoked, changed or unknown key, saying what to do.
        """
        self._refuse_revoked(shown)
        if self._settings.trust_localhost and self._settings.address.startswith(_LOOPBACK):
            return None
        reason = None
        if shown.certificate is not None:
            reason = self._why_not_certified(shown.certificate, now_s, verify)
            if reason is None:
                return None
        keys = [entry for entry in self._entries if entry.marker is Marker.HOST]
        plain = [entry for entry in self._plain if entry.marker is Marker.HOST]
        if any(entry.key == shown.key for entry in keys + plain):
            return None
        same_type = [entry for entry in keys if entry.key_type == embedded_type(shown.key)]
        if same_type:
            return self._changed(shown, same_type[0])
        return self._unknown(shown, keys + plain, reason)

    def _refuse_revoked(self, shown: Shown) -> None:
        certificate = parse_certificate(shown.certificate) if shown.certificate else None
        bad = {shown.key, certificate.authority if certificate else b""}
        for entry in (*self._entries, *self._plain):
            if entry.marker is Marker.REVOKED and entry.key in bad:
                raise ConnectError(
                    f"{self._settings.host}: its host key {shown.what} is revoked "
                    f"({entry.file}:{entry.line_number}): somebody may be posing as this host; "
                    "give the host a new key, or ask who revoked this one"
                )

    def _why_not_certified(self, blob: bytes, now_s: float, verify: Verify) -> str | None:
        certificate = parse_certificate(blob)
        if certificate is None:
            return "its certificate is malformed"
        authorities = [
            entry
            for entry in (*self._entries, *self._plain)
            if entry.marker is Marker.AUTHORITY and entry.key == certificate.authority
        ]
        if not authorities:
            authority = fingerprint(certificate.authority)
            return f"its certificate is of an authority that is not listed for it: {authority}"
        reason = why_not(certificate, self._name, now_s=now_s, verify=verify)
        return f"its certificate is not good: {reason}" if reason else None

    def _changed(self, shown: Shown, entry: KnownKey) -> str:
        place = f"{entry.file}:{entry.line_number}"
        if self._settings.strict is Strict.NO:
            return f"host key {shown.what} differs from {place}; StrictHostKeyChecking is off"
        remove = shlex.join(["ssh-keygen", "-R", self._listed_name, "-f", entry.file])
        raise ConnectError(
            f"{self._settings.host}: its host key CHANGED: it shows {shown.what}, "
            f"{place} has {fingerprint(entry.key)}: the host was reinstalled, or somebody is "
            f"posing as it; if you know that it was: {remove} and then {self._add(shown)}"
        )

    def _unknown(self, shown: Shown, others: Sequence[KnownKey], reason: str | None) -> str:
        if self._settings.strict is not Strict.YES:
            return f"host key {shown.what} is not in known_hosts and was taken on trust"
        why = f" ({reason})" if reason else ""
        if others:
            why += f" ({others[0].file}:{others[0].line_number} has one of another type)"
        elsewhere = [each for each in self._settings.special if each == "knownhostscommand"]
        if elsewhere:
            why += " (its KnownHostsCommand is only asked with `client: openssh`)"
        raise ConnectError(
            f"{self._settings.host}: its host key {shown.what} is not known{why}; compare the "
            f"fingerprint with the host's own, then: {self._add(shown)}"
        )

    def _add(self, shown: Shown) -> str:
        """The command that adds the key, for a shell."""
        settings = self._settings
        file = str(settings.user_known_hosts[0]) if settings.user_known_hosts else "known_hosts"
        if settings.proxy_jump or settings.proxy_command or settings.host_key_alias:
            return f"{shlex.join(['ssh', settings.host])} (answer yes, once)"
        kind = (embedded_type(shown.key) or "").removeprefix("ssh-").partition("-")[0]
        scan = ["ssh-keyscan", "-t", kind]
        if settings.port != DEFAULT_PORT:
            scan += ["-p", str(settings.port)]
        return f"{shlex.join([*scan, settings.address])} >> {shlex.quote(file)}"


class KnownHostsFiles:
    """Reads each set of files once."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._read: dict[tuple[Path, ...], KnownHosts] = {}

    def of(self, settings: SshSettings) -> KnownHosts:
        """The entries of the files that the settings name; those that are missing have none."""
        files = settings.user_known_hosts + settings.global_known_hosts
        if files not in self._read:
            self._read[files] = KnownHosts(
                entry for file in files for entry in parse_known_hosts(_text(file), file=str(file))
            )
        return self._read[files]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
