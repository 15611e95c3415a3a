"""OpenSSH's certificates: what one says, and whether a host's is good for a name now.

Source: OpenSSH, PROTOCOL.certkeys.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from .known_hosts import embedded_type

SUFFIX = "-cert-v01@openssh.com"

_HOST_CERTIFICATE = 2
# How many fields of the public key lie between the nonce and the serial number.
_KEY_FIELDS = {"ssh-rsa": 2, "ssh-ed25519": 1}
_ECDSA_FIELDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a certificate says. `valid_after` and `valid_before` are seconds since 1970.

    `public_key` is the key that it is about, as SSH encodes a plain one.
    """

    public_key: bytes
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical_options: bytes
    authority: bytes
    signed: bytes
    signature: bytes


def parse_certificate(blob: bytes) -> Certificate | None:
    """The certificate that is in this key; None: it is none, or is malformed."""
    key_type = embedded_type(blob) or ""
    if not key_type.endswith(SUFFIX):
        return None
    plain = key_type.removesuffix(SUFFIX)
    try:
        reader = Reader(blob)
        reader.text()
        reader.string()  # the nonce
        begin = reader.at
        for _ in range(_KEY_FIELDS.get(plain, _ECDSA_FIELDS)):
            reader.string()
        public_key = struct.pack(">I", len(plain)) + plain.encode("ascii") + blob[begin : reader.at]
        reader.number(">Q")  # the serial number
        kind, key_id = reader.number(">I"), reader.text()
        principals = Reader(reader.string()).all_strings()
        valid_after, valid_before = reader.number(">Q"), reader.number(">Q")
        critical_options, _, _ = reader.string(), reader.string(), reader.string()
        authority = reader.string()
        signed = blob[: reader.at]
        signature = reader.string()
    except (ValueError, struct.error):
        return None
    return Certificate(
        public_key=public_key,
        kind=kind,
        key_id=key_id,
        principals=tuple(each.decode(errors="backslashreplace") for each in principals),
        valid_after=valid_after,
        valid_before=valid_before,
        critical_options=critical_options,
        authority=authority,
        signed=signed,
        signature=signature,
    )


def why_not(
    certificate: Certificate,
    name: str,
    *,
    now_s: float,
    verify: Callable[[bytes, bytes, bytes], bool],
) -> str | None:
    """Why it is not good for this name; None: it is.

    `verify` is given the authority's key, what was signed and the signature. A certificate
    without principals is good for any name, as PROTOCOL.certkeys has it.
    """
    reason = None
    if certificate.kind != _HOST_CERTIFICATE:
        reason = "it is a user's certificate, not a host's"
    elif certificate.principals and name not in certificate.principals:
        reason = f"it is for {', '.join(certificate.principals)}, not for {name}"
    elif now_s < certificate.valid_after:
        reason = "it is not valid yet (compare the clocks)"
    elif now_s >= certificate.valid_before:
        reason = "it has expired"
    elif certificate.critical_options:
        reason = "it has critical options, and hosts' certificates know none"
    elif not verify(certificate.authority, certificate.signed, certificate.signature):
        reason = "its signature is wrong"
    return reason


class Reader:
    """Takes apart what SSH puts together (RFC 4251, 5)."""

    def __init__(self, data: bytes) -> None:
        """From the beginning."""
        self._data = data
        self.at = 0

    def number(self, form: str) -> int:
        """The next number, in a form of `struct`."""
        value: int = struct.unpack_from(form, self._data, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def string(self) -> bytes:
        """The next string."""
        length = self.number(">I")
        end = self.at + length
        if end > len(self._data):
            raise ValueError("cut short")
        value = self._data[self.at : end]
        self.at = end
        return value

    def text(self) -> str:
        """The next string, as text."""
        return self.string().decode(errors="backslashreplace")

    def all_strings(self) -> list[bytes]:
        """All that is left, as strings."""
        values = []
        while self.at < len(self._data):
            values.append(self.string())
        return values
