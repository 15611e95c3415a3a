"""Our own code as it travels to a host: a zip that is never on its disk.

A host needs nothing of rankrun installed. Its login shell starts Python with a first line of
code, which reads a second program from standard input, which reads the zip that the agent is
imported from, and checks its digest. The zip stays in memory (memfd_create(2)), where ranks of
the suite import it too: nothing to write, to age or to clean up, also on a full disk or without
a home. Next to each module lies its compiled form, which Python takes if it is of its own
version (PEP 552, unchecked hash-based pyc; zipimport falls back to the source if not).
"""

import functools
import hashlib
import importlib.util
import io
import marshal
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

# What an agent is made of, and what ranks of the suite import; as patterns below the package.
_AGENT = ("__init__.py", "jobs/__init__.py", "jobs/agent/*.py")
_SUITE = ("cluster/*.py", "collectives/*.py", "collectives/on_rank/*.py")

_UNCHECKED_PYC = (0b01).to_bytes(4, "little")
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)

# Read a line of hexadecimal digits, byte by byte so as to take nothing of what follows it, and
# execute it. One line without quotes of its own kind, backslashes or "!": login shells differ.
FIRST_LINE = (
    "import os,sys;exec(bytes.fromhex(b"
    '"".join(iter(lambda:os.read(0,1)or sys.exit(1),bytes([10]))).decode()))'
)

_SECOND_PROGRAM = """
import hashlib, os, sys, tempfile
if sys.version_info < (3, 9):
    sys.exit(f"rankrun: {{sys.executable}} is Python {{sys.version.split()[0]}}; "
             "the agent needs 3.9 or newer: name one with python: in the cluster file")
size, digest, data = {size}, "{digest}", bytearray()
while len(data) < size:
    piece = os.read(0, size - len(data))
    if not piece:
        sys.exit(1)
    data += piece
if hashlib.sha256(data).hexdigest() != digest:
    sys.exit("rankrun: the agent's code arrived damaged")
if hasattr(os, "memfd_create"):
    bundle = os.memfd_create("rankrun", os.MFD_CLOEXEC)
else:
    with tempfile.TemporaryFile() as file:
        bundle = os.dup(file.fileno())
with os.fdopen(os.dup(bundle), "wb") as file:
    file.write(data)
del data
sys.path.insert(0, f"/proc/self/fd/{{bundle}}")
from rankrun.jobs.agent.__main__ import main
sys.exit(main(bundle_fd=bundle))
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A zip and its digest, which names its content."""

    data: bytes
    digest: str

    def prologue(self) -> bytes:
        """What an agent is sent before the first word of the protocol."""
        program = _SECOND_PROGRAM.format(size=len(self.data), digest=self.digest)
        return program.encode().hex().encode() + b"\n" + self.data


@functools.cache
def make_bundle() -> Bundle:
    """All that any host needs."""
    root = _package()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
        for path in _sources(root):
            name = f"rankrun/{path.relative_to(root)}"
            source = path.read_bytes()
            bundle.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), source, zipfile.ZIP_DEFLATED)
            compiled = zipfile.ZipInfo(f"{name}c", _ZIP_EPOCH)
            bundle.writestr(compiled, _compiled(source, path), zipfile.ZIP_DEFLATED)
    data = buffer.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _package() -> Path:
    top = sys.modules[__name__.partition(".")[0]]
    assert top.__file__ is not None
    return Path(top.__file__).parent


def _sources(root: Path) -> Iterator[Path]:
    for pattern in (*_AGENT, *_SUITE):
        yield from sorted(root.glob(pattern))


def _compiled(source: bytes, path: Path) -> bytes:
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_PYC + importlib.util.source_hash(source)
    return header + marshal.dumps(code)
