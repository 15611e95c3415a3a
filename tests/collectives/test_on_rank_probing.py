"""Refusals on some ranks or on all: what the ranks agree on, with a fake of the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from rankrun.collectives.cases import Case, Form, GroupKind
from rankrun.collectives.on_rank.probing import Probe, Trial
from rankrun.collectives.on_rank.refusals import RefusedError
from rankrun.collectives.spec import Dtype, Redop


@dataclass
class FakeGroups:
    """The other ranks: in which groups of the kind one is refused, and in which one is not."""

    refused_in: tuple[int, int] = (0, 0)
    passed_in: tuple[int, int] = (0, 0)
    renewed: list[GroupKind] = field(default_factory=list)

    def largest_of_each(self, values: Sequence[int]) -> list[int]:
        return list(map(max, values, (*self.refused_in, *self.passed_in)))

    def renew(self, kind: GroupKind) -> None:
        self.renewed.append(kind)


CASE = Case(
    operation="all_gather",
    form=Form.TENSOR,
    group=GroupKind.PARITY,
    in_place=False,
    asynchronous=False,
    dtype=Dtype.INT16,
    redop=None,
    root=None,
)
BARRIER = replace(CASE, operation="barrier", form=Form.PLAIN)
ROOTED = replace(CASE, operation="broadcast", root=0)
OBJECT = replace(CASE, operation="all_gather_object", form=Form.OBJECT)
BASIC = replace(CASE, operation="all_reduce", dtype=Dtype.FLOAT32, redop=Redop.SUM)


def refuse() -> None:
    raise RuntimeError("Invalid scalar type")


def fail() -> None:
    raise RuntimeError("Connection closed by peer")


def do_nothing() -> None:
    pass


def trial(launch: Callable[[], None], group_index: int = 0) -> Trial:
    return Trial(launch=launch, group_index=group_index)


def test_supported_everywhere() -> None:
    groups = FakeGroups(passed_in=(1, 1))
    probe = Probe(groups)
    assert not probe.is_known(CASE)
    assert probe.attempt(CASE, trial(do_nothing)) is None
    assert probe.is_known(CASE)
    assert probe.supports(CASE)
    assert groups.renewed == []


def test_refused_everywhere_keeps_the_group_until_a_barrier() -> None:
    groups = FakeGroups(refused_in=(1, 1))
    probe = Probe(groups)
    assert probe.attempt(CASE, trial(refuse)) == "Invalid scalar type"
    assert not probe.supports(CASE)
    assert groups.renewed == []
    groups.refused_in, groups.passed_in = (0, 0), (1, 1)
    assert probe.attempt(BARRIER, trial(do_nothing)) is None
    assert groups.renewed == [GroupKind.PARITY]


def test_refused_in_another_group_only() -> None:
    """A group of one can be told what a larger one is not; within each, all ranks agree."""
    groups = FakeGroups(refused_in=(0, 1), passed_in=(1, 0))
    probe = Probe(groups)
    assert probe.attempt(CASE, trial(do_nothing)) == ""
    assert not probe.supports(CASE)
    assert groups.renewed == []


def test_a_rank_that_has_no_part_in_it_learns_what_came_of_it() -> None:
    groups = FakeGroups(refused_in=(1, 0))
    probe = Probe(groups)
    assert probe.attempt(CASE, None) == ""
    assert not probe.supports(CASE)
    assert groups.renewed == []
    assert Probe(FakeGroups(passed_in=(1, 0))).attempt(CASE, None) is None


@pytest.mark.parametrize("case", [ROOTED, OBJECT])
def test_refused_on_some_ranks_the_group_is_made_anew_at_once(case: Case) -> None:
    """Some ranks made a call that the others did not."""
    groups = FakeGroups(refused_in=(1, 0))
    assert Probe(groups).attempt(case, trial(do_nothing)) == ""
    assert groups.renewed == [GroupKind.PARITY]
    groups = FakeGroups(passed_in=(1, 0))
    assert Probe(groups).attempt(case, trial(refuse)) == "Invalid scalar type"
    assert groups.renewed == [GroupKind.PARITY]


@pytest.mark.parametrize("launch", [refuse, do_nothing])
def test_refused_on_some_ranks_what_all_do_alike_is_an_error(launch: Callable[[], None]) -> None:
    groups = FakeGroups(refused_in=(1, 0), passed_in=(1, 0))
    with pytest.raises(RefusedError, match="was refused on some ranks of a group only"):
        Probe(groups).attempt(CASE, trial(launch))


def test_where_a_started_call_cannot_be_left_a_split_is_an_error() -> None:
    """On a GPU the others would wait in it for ever."""
    groups = FakeGroups(refused_in=(1, 0))
    with pytest.raises(RefusedError, match="was refused on some ranks"):
        Probe(groups, can_renew=False).attempt(ROOTED, trial(do_nothing))
    assert groups.renewed == []


@pytest.mark.parametrize(
    "case", [BASIC, replace(BASIC, operation="broadcast", redop=None, root=0), BARRIER]
)
def test_what_every_backend_does_cannot_be_unsupported(case: Case) -> None:
    with pytest.raises(RefusedError, match="which every backend does: Invalid scalar type"):
        Probe(FakeGroups(refused_in=(1, 1))).attempt(case, trial(refuse))


def test_a_failure_is_no_refusal() -> None:
    with pytest.raises(RuntimeError, match="Connection closed"):
        Probe(FakeGroups()).attempt(CASE, trial(fail))
