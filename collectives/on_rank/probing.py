"""Does the backend do this at all? Each case is tried once, on the smallest tensors it has."""

from collections.abc import Callable
from typing import Protocol

from ..cases import Case, Form, GroupKind
from .refusals import is_refusal, reason


class Groups(Protocol):
    """What all ranks do together, as `backends.Session` does."""

    def largest(self, value: int) -> int:
        """The largest of all ranks' values, on every rank."""

    def renew(self, kind: GroupKind) -> None:
        """Make the groups of this kind anew."""


class Probe:
    """Remembers what the backend refused. All ranks ask alike, and get the same answer."""

    def __init__(self, groups: Groups) -> None:
        """Nothing was tried yet."""
        self._groups = groups
        self._supported: dict[Case, bool] = {}
        self._tainted: set[GroupKind] = set()

    def is_known(self, case: Case) -> bool:
        """Whether it was tried already."""
        return case in self._supported

    def supports(self, case: Case) -> bool:
        """What came of it."""
        return self._supported[case]

    def attempt(self, case: Case, make_call: Callable[[], None]) -> str | None:
        """Try it: None if no rank was refused, else the words that this rank got, if any.

        Raises:
            Exception: whatever is no refusal (see `refusals`).
        """
        if case.form is Form.PLAIN and case.group in self._tainted:
            # gloo's barrier waits for the calls before it and raises what one of them raised.
            self._renew(case.group)
        words: str | None = None
        try:
            make_call()
        except Exception as error:
            if not is_refusal(error):
                raise
            words = reason(error)
        self._supported[case] = not self._groups.largest(int(words is not None))
        if self._supported[case]:
            return None
        self._tainted.add(case.group)
        if self._groups.largest(int(words is None)):
            # Some ranks made a call that others did not: they must not meet it in the next one.
            self._renew(case.group)
        return words or ""

    def _renew(self, kind: GroupKind) -> None:
        self._groups.renew(kind)
        self._tainted.discard(kind)
