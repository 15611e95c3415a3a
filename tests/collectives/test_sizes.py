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
    assert all(after == before * factor for before, after in zip(sizes, sizes[1:], strict=False))


@given(st.integers(1, 1 << 20), st.integers(0, MAX_SIZES - 1), st.integers(1, 1 << 20))
def test_increments_reach_as_far_as_they_fit(first: int, steps: int, increment: int) -> None:
    last = first + steps * increment
    sizes = sweep_sizes(format_size(first), str(last), increment=str(increment))
    assert sizes == tuple(range(first, last + 1, increment))


@pytest.mark.parametrize(
    ("first", "last", "factor", "increment", "words"),
    [
        ("1M", "8", None, None, "above the largest"),
        ("0", "8", None, None, "nothing to measure"),
        ("8", "64", 1, None, "-f 1"),
        ("8", "64", 0, None, "-f 0"),
        ("8", "64", -2, None, "-f -2"),
        ("8", "64", None, "0", "-i 0"),
        ("8", "64", 2, "8", "give one of them"),
        ("1", "1M", None, "1", f"more than {MAX_SIZES} sizes"),
        ("eight", "64", None, None, "not a size"),
        ("8", "64X", None, None, "not a size"),
        ("8", "64", None, "-1", "not a size"),
    ],
)
def test_mistakes_say_what_to_write(
    first: str, last: str, factor: int | None, increment: str | None, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        sweep_sizes(first, last, factor=factor, increment=increment)
