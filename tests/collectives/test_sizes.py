from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import UsageError
from rankrun.cluster.units import format_size
from rankrun.collectives.sizes import MAX_SIZES, sweep_sizes


def test_factor_is_two_unless_given() -> None:
    assert sweep_sizes("8", "1K") == (8, 16, 32, 64, 128, 256, 512, 1024)
    assert sweep_sizes("1K", "1M", factor=32) == (1024, 32768, 1048576)


def test_increment_adds_bytes_with_suffixes() -> None:
    assert sweep_sizes("1M", "4M", increment="1M") == (1 << 20, 2 << 20, 3 << 20, 4 << 20)


def test_one_size() -> None:
    assert sweep_sizes("64M", "64M") == (64 << 20,)


def test_the_largest_comes_up_only_if_the_steps_hit_it() -> None:
    assert sweep_sizes("8", "63") == (8, 16, 32)


@given(st.integers(1, 1 << 30), st.integers(1, 1 << 34), st.integers(2, 100))
def test_sizes_grow_within_the_range(first: int, last: int, factor: int) -> None:
    if first > last:
        first, last = last, first
    sizes = sweep_sizes(str(first), str(last), factor=factor)
    assert sizes[0] == first
    assert sizes[-1] <= last < sizes[-1] * factor
    assert all(after == before * factor for before, after in pairwise(sizes))


@given(st.integers(1, 1 << 20), st.integers(0, MAX_SIZES - 1), st.integers(1, 1 << 20))
def test_increments_reach_as_far_as_they_fit(first: int, steps: int, increment: int) -> None:
    last = first + steps * increment
    sizes = sweep_sizes(format_size(first), str(last), increment=str(increment))
    assert sizes == tuple(range(first, last + 1, increment))


@pytest.mark.parametrize(
    ("sizes", "steps", "words"),
    [
        (("1M", "8"), {}, "above the largest"),
        (("0", "8"), {}, "nothing to measure"),
        (("8", "64"), {"factor": 1}, "-f 1"),
        (("8", "64"), {"factor": 0}, "-f 0"),
        (("8", "64"), {"factor": -2}, "-f -2"),
        (("8", "64"), {"increment": "0"}, "-i 0"),
        (("8", "64"), {"factor": 2, "increment": "8"}, "give one of them"),
        (("1", "1M"), {"increment": "1"}, f"more than {MAX_SIZES} sizes"),
        (("eight", "64"), {}, "not a size"),
        (("8", "64X"), {}, "not a size"),
        (("8", "64"), {"increment": "-1"}, "not a size"),
    ],
)
def test_mistakes_say_what_to_write(
    sizes: tuple[str, str], steps: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        sweep_sizes(*sizes, **steps)
