"""Refusals on some ranks or on all: what the ranks agree on, with a fake of the others."""

from dataclasses import dataclass, field

import pytest

from rankrun.collectives.cases import Case, Form, GroupKind
from rankrun.collectives.on_rank.probing import Probe
from rankrun.collectives.spec import Dtype


@dataclass
class FakeGroups:
    """The other ranks: whether one of them is refused, and whether one is not."""

    other_refused: bool = False
    other_passed: bool = True
    renewed: list[GroupKind] = field(default_factory=list)
    asked: int = 0

    def largest(self, value: int) -> int:
        self.asked += 1
        others = self.other_refused if self.asked % 2 else self.other_passed
        return max(value, int(others))

    def renew(self, kind: GroupKind) -> None:
        self.renewed.append(kind)


def case(form: Form = Form.TENSOR) -> Case:
    return Case(
        operation="all_gather",
        form=form,
        group=GroupKind.PARITY,
        in_place=False,
        asynchronous=False,
        dtype=Dtype.INT16,
        redop=None,
        root=None,
    )


def refuse() -> None:
    raise RuntimeError("Invalid scalar type")


def fail() -> None:
    raise RuntimeError("Connection closed by peer")


def do_nothing() -> None:
    pass


def test_supported_everywhere() -> None:
    groups = FakeGroups()
    probe = Probe(groups)
    assert not probe.is_known(case())
    assert probe.attempt(case(), do_nothing) is None
    assert probe.is_known(case())
    assert probe.supports(case())
    assert groups.renewed == []


def test_refused_everywhere_keeps_the_group_until_a_barrier() -> None:
    groups = FakeGroups(other_refused=True, other_passed=False)
    probe = Probe(groups)
    assert probe.attempt(case(), refuse) == "Invalid scalar type"
    assert not probe.supports(case())
    assert groups.renewed == []
    groups.other_refused, groups.asked = False, 0
    assert probe.attempt(case(Form.PLAIN), do_nothing) is None
    assert groups.renewed == [GroupKind.PARITY]


def test_refused_on_another_rank_only() -> None:
    """This rank made a call that the other did not: the group is made anew at once."""
    groups = FakeGroups(other_refused=True)
    probe = Probe(groups)
    assert probe.attempt(case(), do_nothing) == ""
    assert not probe.supports(case())
    assert groups.renewed == [GroupKind.PARITY]


def test_refused_on_this_rank_only() -> None:
    groups = FakeGroups(other_refused=False)
    probe = Probe(groups)
    assert probe.attempt(case(), refuse) == "Invalid scalar type"
    assert groups.renewed == [GroupKind.PARITY]


def test_a_failure_is_no_refusal() -> None:
    with pytest.raises(RuntimeError, match="Connection closed"):
        Probe(FakeGroups()).attempt(case(), fail)
