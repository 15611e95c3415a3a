"""What a private key's file shows without its passphrase.

Source: OpenSSH, PROTOCOL.key. The older PEM forms show only their type, and no public key.
"""

import base64
import binascii
import struct
from dataclasses import dataclass
from pathlib import Path

from .certificates import Reader

_MAGIC = b"openssh-key-v1\0"
_PEM_TYPES = {"RSA": "ssh-rsa", "EC": "ecdsa"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A private key's file. `key_type` None: of a form that is not known."""

    path: Path
    key_type: str | None
    public_key: bytes | None
    encrypted: bool


def look_at(path: Path) -> KeyFile | None:
    """What the file shows, or the public key beside it; None: neither can be read."""
    beside = public_key_of(path.with_name(path.name + ".pub"))
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    lines = [line.strip() for line in text.splitlines()]
    begin = next((line for line in lines if line.startswith("-----BEGIN ")), "")
    kind = begin.removeprefix("-----BEGIN ").removesuffix(" PRIVATE KEY-----")
    if kind == "OPENSSH":
        return _openssh(path, lines, beside)
    return KeyFile(
        path=path,
        key_type=_PEM_TYPES.get(kind),
        public_key=beside,
        encrypted=any(line == "Proc-Type: 4,ENCRYPTED" for line in lines),
    )


def public_key_of(path: Path) -> bytes | None:
    """The key in a file of one line, as `ssh-keygen` writes .pub and -cert.pub files."""
    try:
        fields = path.read_text(encoding="utf-8", errors="replace").split(None, 2)
        return base64.b64decode(fields[1], validate=True)
    except (OSError, IndexError, binascii.Error):
        return None


def _openssh(path: Path, lines: list[str], beside: bytes | None) -> KeyFile:
    body = "".join(line for line in lines if line and not line.startswith("-"))
    unknown = KeyFile(path=path, key_type=None, public_key=beside, encrypted=False)
    try:
        data = base64.b64decode(body, validate=True)
        if not data.startswith(_MAGIC):
            return unknown
        reader = Reader(data[len(_MAGIC) :])
        cipher, _, _, _ = reader.text(), reader.text(), reader.string(), reader.number(">I")
        public_key = reader.string()
        key_type = Reader(public_key).text()
    except (binascii.Error, ValueError, struct.error):
        return unknown
    return KeyFile(path=path, key_type=key_type, public_key=public_key, encrypted=cipher != "none")
