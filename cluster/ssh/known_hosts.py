"""The known_hosts format: lines to entries, and which of them are about a host.

Source: sshd(8), SSH_KNOWN_HOSTS FILE FORMAT; patterns: ssh_config(5), PATTERNS. The library's own
reader is of no use: one marker or malformed line makes it refuse the file, and it has no patterns.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..compat import StrEnum

DEFAULT_PORT = 22

# Patterns that hold more than names.
_SPECIAL = re.compile(r"[*?!|]")


class Marker(StrEnum):
    """What the key of a line is."""

    HOST = ""
    AUTHORITY = "@cert-authority"
    REVOKED = "@revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One line: a key and the hosts it is about. `key` is the public key as SSH encodes it."""

    marker: Marker
    patterns: str
    key_type: str
    key: bytes
    file: str
    line_number: int


def parse_known_hosts(text: str, *, file: str) -> Iterator[KnownKey]:
    r"""The entries of a file; lines that are malformed or no SSH-2 keys are skipped, as ssh does.

    >>> key = "AAAAC3NzaC1lZDI1NTE5AAAAIHN1Y2ggYSBrZXkgaXMgbm90IHJlYWxseSBhIGtleSE="
    >>> text = f"# hosts\n@cert-authority *.lab ssh-ed25519 {key} our CA\nbroken line\n"
    >>> for entry in parse_known_hosts(text, file="known_hosts"):
    ...     print(entry.marker, entry.patterns, entry.key_type, entry.line_number)
    @cert-authority *.lab ssh-ed25519 2
    """
    for line_number, line in enumerate(text.split("\n"), 1):
        entry = _parse_line(line, file, line_number)
        if entry is not None:
            yield entry


def _parse_line(line: str, file: str, line_number: int) -> KnownKey | None:
    fields = line.split()
    if not fields or fields[0].startswith("#"):
        return None
    marker = Marker.HOST
    if fields[0].startswith("@"):
        try:
            marker = Marker(fields.pop(0))
        except ValueError:
            return None
    if len(fields) < 3:
        return None
    patterns, key_type, encoded = fields[:3]
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    if embedded_type(key) != key_type:
        return None
    return KnownKey(
        marker=marker,
        patterns=patterns,
        key_type=key_type,
        key=key,
        file=file,
        line_number=line_number,
    )


def embedded_type(key: bytes) -> str | None:
    r"""The key type that an encoded public key begins with (RFC 4253, 6.6).

    >>> embedded_type(b"\0\0\0\x07ssh-rsa...")
    'ssh-rsa'
    """
    length = int.from_bytes(key[:4], "big")
    if not 0 < length <= min(64, len(key) - 4):
        return None
    return key[4 : 4 + length].decode("ascii", errors="replace")


def name_for(host: str, port: int) -> str:
    """A host as known_hosts writes it.

    >>> name_for("Node1", 22), name_for("fe80::1", 22), name_for("node1", 2222)
    ('node1', 'fe80::1', '[node1]:2222')
    """
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def matches(patterns: str, name: str) -> bool:
    """Whether a list of patterns, or one hashed name, is about this name.

    >>> matches("node?,!node7,*.lab", "node1"), matches("node?,!node7", "node7")
    (True, False)
    >>> matches("[node1]:2222", "[node1]:2222"), matches("[node*]:2222", "[node1]:2222")
    (True, True)
    >>> matches("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=", "192.168.1.61")
    True
    """
    if patterns.startswith("|"):
        return _hash_matches(patterns, name)
    found = False
    for pattern in patterns.split(","):
        if pattern.startswith("!"):
            if _wildcards(pattern[1:].lower()).fullmatch(name):
                return False
        elif _wildcards(pattern.lower()).fullmatch(name):
            found = True
    return found


def _hash_matches(hashed: str, name: str) -> bool:
    r"""`|1|salt|hash`: HMAC-SHA1 of the name, keyed with the salt."""
    parts = hashed.split("|")
    if len(parts) != 4 or parts[1] != "1":
        return False
    try:
        salt, expected = base64.b64decode(parts[2]), base64.b64decode(parts[3])
    except binascii.Error:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), expected)


@lru_cache(maxsize=4096)
def _wildcards(pattern: str) -> re.Pattern[str]:
    """`*` and `?` only: brackets are the port's, not a set of characters."""
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(c) or re.escape(c) for c in pattern), re.DOTALL)


def fingerprint(key: bytes) -> str:
    """As `ssh-keygen -l` shows a key.

    >>> fingerprint(b"key")
    'SHA256:LHDhK3oGRvkiefQnx7OOczTY5Tic/xZ6HcMOc/gmtoM'
    """
    digest = base64.b64encode(hashlib.sha256(key).digest()).decode("ascii")
    return f"SHA256:{digest.rstrip('=')}"


class KnownHosts:
    """The entries of several files, found by name without trying every pattern."""

    def __init__(self, entries: Iterable[KnownKey]) -> None:
        """In the order of the files."""
        self._named: dict[str, list[KnownKey]] = {}
        self._others: list[KnownKey] = []
        for entry in entries:
            if _SPECIAL.search(entry.patterns):
                self._others.append(entry)
            else:
                for name in entry.patterns.lower().split(","):
                    self._named.setdefault(name, []).append(entry)

    def about(self, name: str) -> tuple[KnownKey, ...]:
        """All lines about a name."""
        others = [entry for entry in self._others if matches(entry.patterns, name)]
        return (*self._named.get(name, ()), *others)
