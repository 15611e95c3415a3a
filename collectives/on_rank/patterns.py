"""What a wrong result looks like: each known way of being wrong, tried in turn.

A recogniser supposes that one thing went wrong, works out what the output would then hold, and
compares that with what it does hold. It must explain every wrong element of the sample and,
where those are few, leave the right ones right.

Some faults cannot be told apart by anyone: of two ranks, an unchanged input is what is left when
the other's contribution is missing; under BXOR a contribution that comes twice is missing.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..records import Mismatch, Pattern
from ..spec import Dtype, Redop
from .inputs import BIT_MASK
from .misplaced import swapped
from .reductions import COMPLEX_REDOPS, IDEMPOTENT
from .verification import count_wrong, expected_at
from .wrong_block import SAMPLE, Recognised, Result, WrongBlock, wrong_block_of


def judge(result: Result) -> Mismatch | None:
    """None for a right result, else where it is wrong and what that looks like."""
    counts = [count_wrong(result.output, block, result.sources) for block in result.blocks]
    if not any(counts):
        return None
    wrong = wrong_block_of(result, counts)
    pattern, detail = recognise(wrong)
    expected = expected_at(wrong.block, wrong.sample.offsets[:1], result.sources)
    return Mismatch(
        first_offset=wrong.first_offset,
        num_wrong=wrong.num_wrong,
        num_checked=result.num_checked,
        expected=written(expected),
        got=written(wrong.got[:1]),
        pattern=pattern,
        detail=detail,
    )


def recognise(wrong: WrongBlock) -> Recognised:
    """The first recogniser that explains a wrong block, or its extent."""
    is_bool = wrong.sources.scheme.dtype is Dtype.BOOL
    # Of two values a wrong one is always the poison: for bool, stale is the last resort.
    for recogniser in (*RECOGNISERS, _stale) if is_bool else (_stale, *RECOGNISERS):
        finding = recogniser(wrong)
        if finding is not None:
            return finding
    return Pattern.UNRECOGNISED, _extent(wrong)


def written(value: Tensor) -> str:
    """One element as a reader sees it; a bool that is neither True nor False says its byte."""
    if value.dtype is torch.bool:
        byte = int(value.view(torch.uint8)[0])
        return {0: "False", 1: "True"}.get(byte, f"byte {byte}")
    item = value[0].item()
    is_whole = isinstance(item, float) and item.is_integer() and abs(item) < 2**53
    return str(int(item)) if is_whole else str(item)


def _stale(wrong: WrongBlock) -> Recognised | None:
    """The wrong elements hold what was there before the call."""
    result = wrong.result
    if not _same(wrong.got, result.before(wrong.sample.offsets)) or _is_chance(wrong):
        return None
    kept = "this rank's input" if result.starts_as_input else "what was there before the call"
    return (
        Pattern.STALE_OUTPUT,
        f"{wrong.num_wrong} of {result.num_checked} elements still hold {kept}",
    )


def _is_chance(wrong: WrongBlock) -> bool:
    """Whether something else may have left what was there before.

    One element may be so by a flipped bit. An input value may be what is left without a missing
    contribution: then what lies between the first and the last wrong element is not unchanged.
    """
    first, last = wrong.first_offset, int(wrong.sample.offsets[-1])
    result = wrong.result
    if wrong.num_wrong == 1 and result.num_checked > 1:
        return result.starts_as_input or len(_flipped_bits(wrong)) == 1
    if not result.starts_as_input:
        return False
    region = torch.arange(first, last + 1, max(1, (last - first) // SAMPLE))
    return not _same(result.found(region), result.before(region))


def _same(got: Tensor, held: Tensor) -> bool:
    """Equal throughout, where NaN equals NaN."""
    if got.is_floating_point() or got.is_complex():  # float8 has no isnan of its own
        wide = torch.complex128 if got.is_complex() else torch.float64
        got, held = got.to(wide), held.to(wide)
    return bool((got.eq(held) | (got.isnan() & held.isnan())).all())


def _missing(wrong: WrongBlock) -> Recognised | None:
    """One rank's contribution is not in it."""
    slots = wrong.block.sources
    if not wrong.block.reduced or len(slots) < 2:
        return None
    for number, slot in enumerate(slots):
        if wrong.explains(lambda view, number=number: view.without(number)):  # type: ignore[misc]
            is_xor = wrong.sources.scheme.redop is Redop.BXOR
            twice = " (or came twice, which looks the same)" if is_xor else ""
            detail = f"rank {wrong.rank(slot)}'s contribution is missing{twice}"
            return Pattern.MISSING_CONTRIBUTION, detail
    return None


def _doubled(wrong: WrongBlock) -> Recognised | None:
    """One rank's contribution is in it twice."""
    if not wrong.block.reduced or wrong.sources.scheme.redop in IDEMPOTENT:
        return None
    for number, slot in enumerate(wrong.block.sources):
        if wrong.explains(lambda view, number=number: view.twice(number)):  # type: ignore[misc]
            detail = f"rank {wrong.rank(slot)}'s contribution came twice"
            return Pattern.DOUBLED_CONTRIBUTION, detail
    return None


def _operator(wrong: WrongBlock) -> Recognised | None:
    """Another operator was used."""
    used = wrong.sources.scheme.redop
    if not wrong.block.reduced or used is None:
        return None
    for redop in Redop:
        if redop is used or not _applies(redop, wrong.sources.scheme.dtype):
            continue
        if wrong.explains(lambda view, redop=redop: view.with_operator(redop)):  # type: ignore[misc]
            return Pattern.WRONG_OPERATOR, f"the result is that of {redop}, not of {used}"
    return None


def _applies(redop: Redop, dtype: Dtype) -> bool:
    if redop in (Redop.BAND, Redop.BOR, Redop.BXOR):
        return dtype in BIT_MASK
    return dtype is not Dtype.COMPLEX64 or redop in COMPLEX_REDOPS


def _single(wrong: WrongBlock) -> Recognised | None:
    """One element is wrong, and nothing else explains it."""
    if wrong.num_wrong != 1:
        return None
    flipped = _flipped_bits(wrong)
    listed = ", ".join(map(str, flipped))
    bits = f"bit {listed} is flipped" if len(flipped) == 1 else f"bits {listed} are flipped"
    return (
        Pattern.SINGLE_ELEMENT,
        f"offset {wrong.first_offset} alone of {wrong.result.num_checked} elements: {bits}",
    )


def _flipped_bits(wrong: WrongBlock) -> list[int]:
    """Which bits of the first wrong element differ, counted from the lowest."""
    offset = wrong.sample.offsets[:1]
    expected = expected_at(wrong.block, offset, wrong.sources)
    pairs = zip(_bytes(expected), _bytes(wrong.got[:1]), strict=True)
    return [
        8 * number + bit
        for number, (right, found) in enumerate(pairs)
        for bit in range(8)
        if (right ^ found) >> bit & 1
    ]


def _bytes(value: Tensor) -> list[int]:
    """The bytes of one element, lowest first."""
    found: list[int] = value.view(torch.uint8).tolist()
    return found


def _extent(wrong: WrongBlock) -> str:
    num_blocks = len(wrong.wrong_blocks)
    blocks = f" of {num_blocks} blocks" if num_blocks > 1 else ""
    return (
        f"{wrong.num_wrong} of {wrong.result.num_checked} elements{blocks} are wrong, "
        f"from offset {wrong.first_offset} on"
    )


RECOGNISERS: tuple[Callable[[WrongBlock], Recognised | None], ...] = (
    swapped,
    _missing,
    _doubled,
    _operator,
    _single,
)
