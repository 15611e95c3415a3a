"""Host-list expressions as Slurm, pdsh and ClusterShell write them: `node[01-04,07]`.

Source of the form: slurm.conf(5), "hostlist expressions", and `scontrol show hostnames`.
"""

import itertools
import re
from collections.abc import Iterator

from ..errors import UsageError

MAX_HOSTS = 65536

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
# A name, with a user before it if one is said. It begins with none of what a program takes for
# an option, and holds nothing that a shell or ssh would see as more than a name.
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.\-]*@)?[A-Za-z0-9_][A-Za-z0-9_.\-]*")


def expand_hosts(expression: str) -> tuple[str, ...]:
    """The names of an expression, in the order written; zeros in front are kept.

    >>> expand_hosts("node[08-10],gpu3")
    ('node08', 'node09', 'node10', 'gpu3')
    >>> expand_hosts("r[1-2]n[1,3]")
    ('r1n1', 'r1n3', 'r2n1', 'r2n3')

    Raises:
        UsageError: for what is no expression, a name twice, or more than MAX_HOSTS names.
    """
    parts = split_outside_brackets(expression)
    names = tuple(itertools.islice(_all_names(parts, expression), MAX_HOSTS + 1))
    if len(names) > MAX_HOSTS:
        raise UsageError(f"hosts {expression!r}: more than {MAX_HOSTS} names")
    seen: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if name in seen:
            raise UsageError(
                f"hosts {expression!r}: {name} is named twice, as number {seen[name]} and number "
                f"{position}; name each host once and give it more ranks with slots"
            )
        seen[name] = position
    return names


def split_outside_brackets(text: str) -> list[str]:
    """The parts between commas, not counting commas in brackets.

    >>> split_outside_brackets("a[1,2],b")
    ['a[1,2]', 'b']
    """
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def check_name(name: str, *, said_in: str) -> str:
    """A name that ssh and Slurm take for one.

    Raises:
        UsageError: for any other.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{said_in}: {name!r} is no host name: letters, digits, '.', '-' and '_' with an "
            "optional user@ before them; ranges are written node[0-3]"
        )
    return name


def _all_names(parts: list[str], expression: str) -> Iterator[str]:
    where = f"hosts {expression!r}"
    for part in parts:
        for name in _names(part, where):
            yield check_name(name, said_in=where)


def _names(part: str, where: str) -> Iterator[str]:
    """`part` cut at its brackets: fixed text and choices in turn."""
    pieces = _BRACKETS.split(part)
    choices: list[list[str]] = [
        [piece] if index % 2 == 0 else list(itertools.islice(_numbers(piece, where), MAX_HOSTS + 1))
        for index, piece in enumerate(pieces)
    ]
    return ("".join(chosen) for chosen in itertools.product(*choices))


def _numbers(text: str, where: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise UsageError(f"{where}: [{text}] is no range; write [0-3] or [01-04,07]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise UsageError(f"{where}: the range {part} runs backwards; write {last}-{first}")
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
