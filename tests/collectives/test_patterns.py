"""Right results are made wrong in each way, and each is named; right ones never are."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rankrun.collectives.cases import Case, GroupKind
from rankrun.collectives.faults import FaultKind
from rankrun.collectives.layouts import Position, true_count
from rankrun.collectives.on_rank.inputs import scheme_for
from rankrun.collectives.on_rank.misbehaviour import corrupt
from rankrun.collectives.on_rank.patterns import judge
from rankrun.collectives.on_rank.reductions import IDEMPOTENT, torch_dtype
from rankrun.collectives.on_rank.verification import Sources, write_expected
from rankrun.collectives.on_rank.wrong_block import Result
from rankrun.collectives.operations import OPERATIONS, Operation, forms_of
from rankrun.collectives.records import Pattern
from rankrun.collectives.spec import ELEMENT_BYTES, Dtype, Redop

quick = settings(deadline=None, max_examples=60)

WITH_DATA = [row for row in OPERATIONS if row.size_means != "no data"]
REDUCING = [row for row in OPERATIONS if row.reduces]
INTEGERS = (Dtype.INT8, Dtype.UINT8, Dtype.INT16, Dtype.INT32, Dtype.INT64)


@dataclass(frozen=True)
class Setting:
    row: Operation
    dtype: Dtype
    redop: Redop | None
    n: int
    rank: int
    count: int
    in_place: bool


@st.composite
def cases(draw: st.DrawFn, rows: list[Operation], *, least: int = 2) -> Setting:
    row = draw(st.sampled_from(rows))
    dtype = draw(st.sampled_from(Dtype))
    redops = [Redop.SUM, Redop.AVG, Redop.PRODUCT, Redop.MIN, Redop.MAX]
    redops += [Redop.BAND, Redop.BOR, Redop.BXOR] if dtype in INTEGERS else []
    if dtype is Dtype.COMPLEX64:
        redops = [Redop.SUM, Redop.AVG]
    n = draw(st.integers(least, 6))
    asked = draw(st.integers(64, 2000)) * n
    return Setting(
        row=row,
        dtype=dtype,
        redop=draw(st.sampled_from(redops)) if row.reduces else None,
        n=n,
        rank=draw(st.integers(0, n - 1)),
        count=true_count(row.counting, asked, group_size=n, element_bytes=ELEMENT_BYTES[dtype]),
        in_place=draw(st.sampled_from(row.in_place)),
    )


def right_result(setting: Setting) -> Result:
    row, n = setting.row, setting.n
    # The root is never the rank that is looked at, except where only the root has a result.
    root = setting.rank if row.name in ("reduce", "gather", "gather_object") else 0
    layout = row.layout(Position(group_size=n, rank=setting.rank, root=root), setting.count)
    sources = Sources(
        scheme=scheme_for(setting.dtype, setting.redop, n),
        seed=1,
        members=tuple(range(20, 20 + n)),
        extent=setting.count,
        device=torch.device("cpu"),
    )
    output = torch.zeros(layout.output_elements, dtype=torch_dtype(setting.dtype))
    write_expected(output, layout.blocks, sources)
    case = Case(
        operation=row.name,
        form=row.form,
        group=GroupKind.WORLD,
        in_place=setting.in_place,
        asynchronous=False,
        dtype=setting.dtype,
        redop=setting.redop,
        root=root,
    )
    return Result(
        case=case,
        layout=layout,
        slot=setting.rank,
        output=output,
        sources=sources,
        overlap=row.overlap if setting.in_place else None,
    )


def corrupted(kind: FaultKind, setting: Setting) -> Result:
    result = right_result(setting)
    right = result.output.clone()
    assume(corrupt(kind, result))
    assume(not torch.equal(result.output.view(torch.uint8), right.view(torch.uint8)))
    return result


@quick
@given(cases(WITH_DATA, least=1))
def test_right_results_are_never_flagged(setting: Setting) -> None:
    assert judge(right_result(setting)) is None


@quick
@given(cases(REDUCING, least=3))
def test_missing_contribution(setting: Setting) -> None:
    mismatch = judge(corrupted(FaultKind.MISSING, setting))
    assert mismatch is not None
    assert mismatch.pattern is Pattern.MISSING_CONTRIBUTION, mismatch
    assert f"rank {20 + setting.n - 1}'s contribution is missing" in mismatch.detail


@quick
@given(cases(REDUCING))
def test_doubled_contribution(setting: Setting) -> None:
    assume(setting.redop not in IDEMPOTENT)
    assume(setting.dtype is not Dtype.BOOL or setting.redop is Redop.SUM)
    mismatch = judge(corrupted(FaultKind.DOUBLED, setting))
    assert mismatch is not None
    assert mismatch.pattern is Pattern.DOUBLED_CONTRIBUTION, mismatch
    assert mismatch.detail == f"rank {20 + setting.n - 1}'s contribution came twice"


@quick
@given(cases(WITH_DATA, least=3))
def test_swapped_blocks(setting: Setting) -> None:
    mismatch = judge(corrupted(FaultKind.SWAPPED, setting))
    assert mismatch is not None
    assert mismatch.pattern is Pattern.SWAPPED_BLOCKS, mismatch
    is_exchange = "the other way round" in mismatch.detail or "half" in mismatch.detail
    assert is_exchange, mismatch


@quick
@given(cases(WITH_DATA, least=3))
def test_stale_output(setting: Setting) -> None:
    assume(setting.dtype is not Dtype.BOOL)
    mismatch = judge(corrupted(FaultKind.STALE, setting))
    assert mismatch is not None
    assert mismatch.pattern is Pattern.STALE_OUTPUT, mismatch


@quick
@given(cases(WITH_DATA))
def test_single_corrupted_element(setting: Setting) -> None:
    result = corrupted(FaultKind.ELEMENT, setting)
    mismatch = judge(result)
    assume(mismatch is not None)  # a rounding bound may hide the lowest bit
    assert mismatch is not None
    assert mismatch.num_wrong == 1
    assert mismatch.pattern is Pattern.SINGLE_ELEMENT, mismatch
    assert "bit 0 is flipped" in mismatch.detail


@quick
@given(cases(REDUCING, least=3))
def test_wrong_operator(setting: Setting) -> None:
    assume(setting.dtype is not Dtype.BOOL)
    # Where one rank at a time contributes, some operators give the same.
    mismatch = judge(corrupted(FaultKind.OPERATOR, setting))
    assert mismatch is not None
    assert mismatch.pattern is Pattern.WRONG_OPERATOR, mismatch
    assert "not of" in mismatch.detail


def setting_for(name: str, **changes: object) -> Setting:
    plain: dict[str, object] = {
        "row": forms_of(name)[0],
        "dtype": Dtype.FLOAT32,
        "redop": Redop.SUM if forms_of(name)[0].reduces else None,
        "n": 4,
        "rank": 1,
        "count": 4096,
        "in_place": forms_of(name)[0].in_place[0],
    }
    return Setting(**(plain | changes))  # type: ignore[arg-type]


@quick
@given(st.sampled_from(["all_reduce", "all_gather"]), st.integers(0, 4095), st.integers(0, 2**32))
def test_noise_has_no_known_pattern(name: str, first: int, seed: int) -> None:
    result = right_result(setting_for(name))
    count = max(2, 4096 - first)
    generator = torch.Generator().manual_seed(seed)
    result.output[-count:] += torch.randint(1, 99, (count,), generator=generator) * 64
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.pattern is Pattern.UNRECOGNISED, mismatch
    assert (mismatch.num_wrong, mismatch.first_offset) == (count, 4096 - count)


def test_a_part_of_a_contribution_is_missing() -> None:
    """One channel of a ring loses one rank's data; the rest is right."""
    result = right_result(setting_for("all_reduce"))
    whole = right_result(setting_for("all_reduce"))
    assert corrupt(FaultKind.MISSING, whole)
    result.output[1000:1500] = whole.output[1000:1500]
    mismatch = judge(result)
    assert mismatch is not None
    assert (mismatch.pattern, mismatch.detail) == (
        Pattern.MISSING_CONTRIBUTION,
        "rank 23's contribution is missing",
    )
    assert (mismatch.first_offset, mismatch.num_wrong) == (1000, 500)


def test_data_of_the_wrong_rank() -> None:
    result = right_result(setting_for("broadcast", rank=2))
    result.output.copy_(result.sources.period((3,))[:4096])
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.detail == "offsets 0 to 4095 hold rank 23's data instead of rank 20's"


def test_a_part_for_another_rank() -> None:
    setting = setting_for("reduce_scatter", in_place=False)
    result = right_result(setting)
    other = right_result(setting_for("reduce_scatter", in_place=False, rank=3))
    result.output.copy_(other.output)
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.pattern is Pattern.SWAPPED_BLOCKS
    assert mismatch.detail == "offsets 0 to 1023 hold what is for rank 23"


def test_stale_part_of_an_output() -> None:
    result = right_result(setting_for("all_gather", in_place=False))
    result.output[100:200] = float("nan")
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.pattern is Pattern.STALE_OUTPUT
    assert mismatch.detail == "100 of 4096 elements still hold what was there before the call"
    assert (mismatch.expected, mismatch.got) == (mismatch.expected, "nan")


def test_stale_bools() -> None:
    """Of two values a wrong one is the poison: stale only if nothing else explains it."""
    setting = setting_for("all_gather", dtype=Dtype.BOOL, in_place=False)
    result = right_result(setting)
    assert corrupt(FaultKind.STALE, result)
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.pattern is Pattern.STALE_OUTPUT


def test_of_two_ranks_a_missing_contribution_leaves_the_input() -> None:
    result = right_result(setting_for("all_reduce", n=2, rank=0))
    assert corrupt(FaultKind.MISSING, result)
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.detail == "4096 of 4096 elements still hold this rank's input"


def test_xor_cannot_tell_missing_from_doubled() -> None:
    result = right_result(setting_for("all_reduce", dtype=Dtype.INT32, redop=Redop.BXOR))
    assert corrupt(FaultKind.MISSING, result)
    mismatch = judge(result)
    assert mismatch is not None
    assert "or came twice, which looks the same" in mismatch.detail


def test_more_ranks_than_are_kept() -> None:
    setting = setting_for("all_reduce", n=200, rank=7, count=64)
    result = right_result(setting)
    assert judge(result) is None
    assert corrupt(FaultKind.DOUBLED, result)
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.detail == "rank 219's contribution came twice"


@pytest.mark.parametrize("dtype", Dtype)
def test_expected_and_got_are_written_out(dtype: Dtype) -> None:
    result = right_result(setting_for("all_gather", dtype=dtype))
    assert corrupt(FaultKind.ELEMENT, result)
    mismatch = judge(result)
    assert mismatch is not None
    assert mismatch.expected != mismatch.got
