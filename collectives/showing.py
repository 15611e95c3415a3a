"""--show: lines of one step in the order of ranks, whenever they arrive."""

from collections import defaultdict
from collections.abc import Collection

from .records import Shown


class ShownLines:
    """Holds the lines of a step back until no rank can add to them.

    A rank is past a step when it reports a later one, leaves, or ends. Lines come out step by
    step, within a step rank by rank, each rank's in the order it wrote them.
    """

    def __init__(self, ranks: Collection[int]) -> None:
        """Nothing was shown yet."""
        self._at = dict.fromkeys(ranks, 0)
        self._lines: dict[int, dict[int, list[Shown]]] = defaultdict(lambda: defaultdict(list))

    def add(self, shown: Shown) -> list[Shown]:
        """Take a line in; the lines that can now be printed."""
        self._lines[shown.step][shown.rank].append(shown)
        return self.reached(shown.rank, shown.step)

    def reached(self, rank: int, step: int) -> list[Shown]:
        """A rank is at this step now."""
        self._at[rank] = max(step, self._at.get(rank, 0))
        return self._flush(min(self._at.values()))

    def ended(self, rank: int) -> list[Shown]:
        """A rank will say no more."""
        self._at.pop(rank, None)
        return self._flush(min(self._at.values(), default=None))

    def _flush(self, before: int | None) -> list[Shown]:
        ready = sorted(step for step in self._lines if before is None or step < before)
        return [
            shown
            for step in ready
            for _, lines in sorted(self._lines.pop(step).items())
            for shown in lines
        ]
