"""Disk space kept back, so that a run whose disk fills up can still say so."""

import errno
import os
from contextlib import suppress

from .run_folder import RunFolder

_BASE_BYTES = 64 << 10
_BYTES_PER_RANK = 4 << 10


class DiskReserve:
    """A file of real blocks in the run folder; releasing it makes room for the last files."""

    def __init__(self, folder: RunFolder, *, world_size: int) -> None:
        """Take the space.

        Raises:
            RunFolderError: if there is not even room for this.
        """
        self._path = folder.path / ".reserve"
        size = _BASE_BYTES + _BYTES_PER_RANK * world_size
        try:
            with self._path.open("wb") as file:
                _allocate(file.fileno(), size)
        except OSError as error:
            self.release()
            raise folder.error("reserve space in", self._path, error) from error

    def release(self) -> None:
        """Give the space back; can be called again."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _allocate(descriptor: int, size: int) -> None:
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        os.write(descriptor, bytes(size))  # file systems without fallocate: write it
