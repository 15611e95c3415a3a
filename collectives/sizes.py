"""The sizes of a sweep, chosen as nccl-tests' -b, -e, -f and -i choose them."""

from collections.abc import Iterator

from ..cluster.errors import UsageError
from ..cluster.units import format_size, parse_size_bytes

DEFAULT_FACTOR = 2
MAX_SIZES = 1000
MAX_SIZE_BYTES = 1 << 50  # far beyond any machine, far below what a tensor can count


def sweep_sizes(
    smallest: str, largest: str, *, factor: int | None = None, increment: str | None = None
) -> tuple[int, ...]:
    """Sizes in bytes from `smallest` on, none above `largest`.

    Each is `factor` times the one before (default 2) or `increment` more. As in nccl-tests,
    `largest` itself comes up only if the steps hit it.

    >>> sweep_sizes("8", "64")
    (8, 16, 32, 64)
    >>> sweep_sizes("1K", "4K", increment="1536")
    (1024, 2560, 4096)

    Raises:
        UsageError: for a size that is none, an empty range, or steps that lead nowhere.
    """
    first, last = parse_size_bytes(smallest), parse_size_bytes(largest)
    _check_range(first, last)
    if factor is not None and increment is not None:
        raise UsageError("-f and -i: give one of them; -f multiplies, -i adds bytes")
    sizes: list[int] = []
    for size in _growing(first, factor, increment):
        if size > last:
            return tuple(sizes)
        if len(sizes) == MAX_SIZES:
            raise UsageError(
                f"-b {smallest} -e {largest}: more than {MAX_SIZES} sizes; take larger steps "
                "with -f or -i"
            )
        sizes.append(size)
    raise AssertionError("sizes grow")


def _check_range(first: int, last: int) -> None:
    if first < 1:
        raise UsageError("-b 0: there is nothing to measure in 0 bytes; begin with 1 or more")
    if last > MAX_SIZE_BYTES:
        raise UsageError(
            f"-e {format_size(last)}: no machine holds that; at most {format_size(MAX_SIZE_BYTES)}"
        )
    if first > last:
        raise UsageError(
            f"-b {format_size(first)} -e {format_size(last)}: the smallest size is above the "
            "largest; -b begins, -e ends"
        )


def _growing(first: int, factor: int | None, increment: str | None) -> Iterator[int]:
    if increment is not None:
        step = parse_size_bytes(increment)
        if step < 1:
            raise UsageError("-i 0: the size would never grow; write bytes to add, as in -i 1M")
        multiply = 1
    else:
        step, multiply = 0, DEFAULT_FACTOR if factor is None else factor
        if multiply < 2:
            raise UsageError(f"-f {multiply}: the size would never grow; the factor is 2 or more")
    size = first
    while True:
        yield size
        size = size * multiply + step
