"""Appending to the growing files of a run folder, until the disk is full."""

from collections import OrderedDict
from contextlib import suppress
from io import FileIO
from pathlib import Path

from ..cluster.errors import RunFolderError
from .reserve import DiskReserve
from .run_folder import RunFolder

# Far below the usual limit of 1024 open files; the one not used for longest is closed.
_MAX_OPEN = 128


class FolderWriter:
    """Writes at once, so that every file can be followed.

    The first error ends all writing: what comes then is dropped, so that no rank hangs on a
    pipe that nobody empties.
    """

    def __init__(self, folder: RunFolder, *, world_size: int) -> None:
        """Keep some space back for the last files.

        Raises:
            RunFolderError: if there is not even room for that.
        """
        self.folder = folder
        self._reserve = DiskReserve(folder, world_size=world_size)
        self._open: OrderedDict[Path, FileIO] = OrderedDict()
        self.failure: BaseException | None = None
        self.failed_path: Path | None = None

    def append(self, path: Path, data: bytes) -> bool:
        """Add to a file, made if need be; False if writing has ended."""
        if self.failure is not None:
            return False
        try:
            file = self._file(path)
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            self._fail(error, path)
        return self.failure is None

    def write_json(self, path: Path, document: object) -> bool:
        """Write a whole file; False if writing has ended."""
        if self.failure is None:
            try:
                self.folder.write_json(path, document)
            except RunFolderError as error:
                self._fail(error.__cause__ or error, path)
        return self.failure is None

    def close(self) -> None:
        """Close all files and give the reserve back: the last files can now be written."""
        for file in self._open.values():
            with suppress(OSError):
                file.close()
        self._open.clear()
        self._reserve.release()

    def _fail(self, error: BaseException, path: Path) -> None:
        self.failure, self.failed_path = error, path
        self._reserve.release()

    def _file(self, path: Path) -> FileIO:
        file = self._open.pop(path, None)
        if file is None:
            if len(self._open) >= _MAX_OPEN:
                self._open.popitem(last=False)[1].close()
            file = FileIO(path, "ab")
        self._open[path] = file
        return file
