"""How ranks and their ends are called in messages."""

import re
from collections.abc import Iterable

from .agent.kernel import signal_name
from .outcomes import End, RankOutcome

# The line of a traceback or log that says what it was about.
_SAYS_WHY = re.compile(
    r"^(?:\S+ )*?[\w.]*(?:Error|Exception|Exit|Interrupt)\b.*"
    r"|^\s*what\(\): .*"  # libstdc++'s report of an exception that nobody caught
)
_FATAL = "Fatal Python error: "
_MAX_LINE = 200


def format_ranks(ranks: Iterable[int]) -> str:
    """Ranks by range.

    >>> format_ranks([3]), format_ranks([0, 1, 2, 5])
    ('rank 3', 'ranks 0-2,5')
    """
    runs: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"rank {text}" if text.isdigit() else f"ranks {text}"


def signal_of(outcome: RankOutcome) -> str | None:
    """The name of the signal that ended it, if one did."""
    if outcome.code is None or outcome.code >= 0:
        return None
    return signal_name(-outcome.code)


def describe_end(outcome: RankOutcome, *, plural: bool = False) -> str:
    """What happened to it, after "rank 3 ..." or, `plural`, "ranks 3-5 ..."."""
    was = "were" if plural else "was"
    if outcome.end is End.NEVER_REPORTED:
        return "never reported"
    if outcome.end is End.FAILED and outcome.pid is None:
        return "could not be started"
    if outcome.end is End.STOPPED:
        return f"{was} stopped"
    name = signal_of(outcome)
    return f"{was} killed by {name}" if name else f"exited with code {outcome.code}"


def key_line(outcome: RankOutcome) -> str | None:
    """The one line of its last words that says most: the last that names an error."""
    words = outcome.last_words
    named = [line for line in words if _SAYS_WHY.match(line)]
    named = named or [line for line in words if line.startswith(_FATAL)]
    chosen = (named or list(words))[-1:]
    return chosen[0].strip()[:_MAX_LINE] if chosen else None
