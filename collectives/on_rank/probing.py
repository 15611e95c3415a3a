"""Does the backend do this at all? Each case is tried once, on the smallest tensors it has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .. import operations
from ..cases import Case, Form, GroupKind
from .refusals import RefusedError, is_basic, refusal_of


class Groups(Protocol):
    """What all ranks do together, as `backends.Session` does."""

    def largest_of_each(self, values: Sequence[int]) -> list[int]:
        """The largest of all ranks' values in each place, on every rank."""

    def renew(self, kind: GroupKind) -> None:
        """Make the groups of this kind anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One call on this rank. `group_index` says in which group of its kind the rank is."""

    launch: Callable[[], object]
    group_index: int


class Probe:
    """Remembers what the backend refused. All ranks ask alike, and get the same answer."""

    def __init__(self, groups: Groups, *, can_renew: bool = True) -> None:
        """`can_renew`: ranks get out of a call that others did not make (not so on a GPU)."""
        self._groups = groups
        self._can_renew = can_renew
        self._supported: dict[Case, bool] = {}
        self._tainted: set[GroupKind] = set()

    def is_known(self, case: Case) -> bool:
        """Whether it was tried already."""
        return case in self._supported

    def supports(self, case: Case) -> bool:
        """What came of it."""
        return self._supported[case]

    def attempt(self, case: Case, trial: Trial | None) -> str | None:
        """Try it: None if no rank was refused, else the words that this rank got, if any.

        `trial` is None on a rank that is in no group of the kind. A device may still be at the
        call when this returns.

        Raises:
            RefusedError: where only some ranks of a group were refused in what all do alike, or
                what every backend does was refused.
            Exception: whatever is no refusal (see `refusals`).
        """
        if case.form is Form.PLAIN and case.group in self._tainted:
            # gloo's barrier waits for the calls before it and raises what one of them raised.
            self._renew(case.group)
        words = refusal_of(trial.launch) if trial else None
        refused, passed = self._agree(trial, words)
        self._supported[case] = not any(refused)
        if self._supported[case]:
            return None
        is_split = any(map(min, refused, passed))
        self._check(case, words, is_split=is_split)
        self._tainted.add(case.group)
        if is_split:
            # Some ranks made a call that others did not: they must not meet it in the next one.
            self._renew(case.group)
        return words or ""

    def _agree(self, trial: Trial | None, words: str | None) -> tuple[list[int], list[int]]:
        """Of each group of the kind (two at most): was a rank refused, did a rank pass?"""
        own = [[0, 0], [0, 0]]
        if trial:
            own[int(words is None)][trial.group_index] = 1
        both = self._groups.largest_of_each([*own[0], *own[1]])
        return both[:2], both[2:]

    def _check(self, case: Case, words: str | None, *, is_split: bool) -> None:
        said = words or "another rank's line says why"
        if is_basic(case):
            raise RefusedError(f"{case.label} was refused, which every backend does: {said}")
        row = operations.find(case.operation, case.form)
        is_alike = not row.rooted and case.form is not Form.OBJECT
        if is_split and (is_alike or not self._can_renew):
            raise RefusedError(f"{case.label} was refused on some ranks of a group only: {said}")

    def _renew(self, kind: GroupKind) -> None:
        self._groups.renew(kind)
        self._tainted.discard(kind)
