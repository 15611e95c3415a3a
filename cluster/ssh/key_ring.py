"""Private keys from files: each read once, each passphrase asked once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from .key_files import KeyFile

# Gets a question, gives the answer; None: nobody is there.
Ask = Callable[[str], "str | None"]

_ATTEMPTS = 3

K = TypeVar("K")


class KeyRing(Generic[K]):
    """Shared by all connections, so that one key for a hundred hosts is asked for once."""

    def __init__(self, ask: Ask | None) -> None:
        """`ask` None: a key that needs a passphrase is passed over."""
        self._ask = ask
        self._lock = threading.Lock()
        self._loaded: dict[Path, K | None] = {}
        self.troubles: dict[Path, str] = {}

    def load(self, file: KeyFile, read: Callable[[KeyFile, str | None], K]) -> K | None:
        """The private key; None: it cannot be used, and `troubles` says why.

        `read` gets the file and a passphrase; it raises ValueError where that does not serve.
        """
        with self._lock:
            if file.path not in self._loaded:
                self._loaded[file.path] = self._read(file, read)
            return self._loaded[file.path]

    def _read(self, file: KeyFile, read: Callable[[KeyFile, str | None], K]) -> K | None:
        for passphrase in self._passphrases(file):
            key = self._try(file, passphrase, read)
            if key is not None:
                return key
        return None

    def _try(
        self, file: KeyFile, passphrase: str | None, read: Callable[[KeyFile, str | None], K]
    ) -> K | None:
        try:
            key = read(file, passphrase)
        except ValueError as error:
            wrong = "the passphrase is wrong" if file.encrypted else str(error)
            self.troubles[file.path] = f"{file.path}: {wrong}"
            return None
        self.troubles.pop(file.path, None)
        return key

    def _passphrases(self, file: KeyFile) -> Iterator[str | None]:
        if not file.encrypted:
            yield None
            return
        self.troubles[file.path] = (
            f"{file.path} is encrypted and not in the ssh-agent: run ssh-add {file.path}"
        )
        if self._ask is None:
            return
        for _ in range(_ATTEMPTS):
            passphrase = self._ask(f"Passphrase for {file.path}: ")
            if not passphrase:
                return
            yield passphrase
