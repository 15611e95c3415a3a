"""What a suite run does, step by step: the same list on every rank and on the controller.

A step is one case at one size. Deterministic and free of torch: it depends on the spec and on
who shares a node, nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from . import operations
from .cases import Case, Form, GroupKind
from .layouts import Counting, true_count
from .operations import Operation
from .spec import ELEMENT_BYTES, Dtype, Mode, Redop, SuiteSpec

# A case that is proved rather than swept takes no more than this: objects are pickled.
LARGEST_PROOF_BYTES = 1 << 20
MATRIX_BYTES = 1 << 10
SHOW_BYTES = 0  # a few elements, which `on_rank.show` chooses

SUBGROUPS = (GroupKind.HALVES, GroupKind.PARITY, GroupKind.NODE_LEADERS)

# --show begins with what is no collective; its scenes are steps as well.
SHOWN_FIRST = ("init_process_group", "get_rank", "get_world_size")
SHOWN_REDOPS = (Redop.SUM, Redop.MIN, Redop.MAX, Redop.PRODUCT, Redop.AVG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How many ranks there are, and which of them have LOCAL_RANK 0."""

    world_size: int
    node_leaders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One case at one size.

    `number` counts from 1; `size_bytes` is S as asked for, `count` its elements, before they
    are fitted to the group (see `step_count`).
    """

    number: int
    case: Case
    size_bytes: int
    count: int
    verify: bool
    time: bool


def step_count(step: Step, group_size: int) -> int:
    """Elements of S that a group of this size really uses."""
    case = step.case
    if case.form is Form.SCENE:
        return 0
    counting = operations.find(case.operation, case.form).counting
    return true_count(
        counting, step.count, group_size=group_size, element_bytes=ELEMENT_BYTES[case.dtype]
    )


def enumerate_steps(spec: SuiteSpec, topology: Topology) -> list[Step]:
    """All steps in order, those before `spec.first_step` included (they keep their numbers).

    Raises:
        UsageError: for an operation that is not in the table.
    """
    modes = {Mode.SWEEP: _sweep, Mode.MATRIX: _matrix, Mode.SHOW: _show}
    steps = modes[spec.mode](spec, topology)
    return [replace(step, number=number) for number, step in enumerate(steps, start=1)]


def members(kind: GroupKind, topology: Topology) -> tuple[tuple[int, ...], ...]:
    """The groups of a kind, each with its ranks as the whole run numbers them.

    Groups without ranks are left out; ranks may be in none (NODE_LEADERS).
    """
    everyone = range(topology.world_size)
    half = (topology.world_size + 1) // 2
    groups: dict[GroupKind, tuple[Iterable[int], ...]] = {
        GroupKind.WORLD: (everyone,),
        GroupKind.HALVES: (everyone[:half], everyone[half:]),
        GroupKind.PARITY: (everyone[::2], everyone[1::2]),
        GroupKind.NODE_LEADERS: (topology.node_leaders,),
    }
    return tuple(tuple(group) for group in groups[kind] if tuple(group))


def _rows(spec: SuiteSpec) -> list[Operation]:
    wanted = spec.operations or operations.operation_names()
    for name in wanted:
        operations.forms_of(name)
    return [row for row in operations.OPERATIONS if row.name in wanted]


def _sweep(spec: SuiteSpec, topology: Topology) -> Iterator[Step]:
    """First the cases that are timed at every size, then those that are proved."""
    rows = _rows(spec)
    for row in (row for row in rows if row.swept):
        placements = [
            _sized(row, _case(row, spec, in_place=in_place), spec, topology)
            for in_place in row.in_place
        ]
        # Size by size, so that a row of the table is complete before the next begins.
        for at_one_size in zip(*placements, strict=True):
            yield from at_one_size
    proofs = replace(spec, sizes_bytes=_proof_sizes(spec.sizes_bytes))
    for row in rows:
        for case in _proved_cases(row, spec, topology):
            yield from _sized(row, case, proofs, topology)


def _proof_sizes(sizes_bytes: Sequence[int]) -> tuple[int, ...]:
    """The smallest and a middle size."""
    ordered = sorted(sizes_bytes)
    middle = ordered[len(ordered) // 2]
    return tuple(sorted({ordered[0], min(middle, max(ordered[0], LARGEST_PROOF_BYTES))}))


def _proved_cases(row: Operation, spec: SuiteSpec, topology: Topology) -> Iterator[Case]:
    case = _case(row, spec, in_place=row.in_place[0])
    if not row.swept:
        yield case
    if row.async_form:
        yield replace(case, asynchronous=True)
    for kind in SUBGROUPS if topology.world_size > 1 else ():
        smallest = min(len(group) for group in members(kind, topology))
        # A rank alone in its group has nobody to send to.
        if smallest > 1 or not row.needs_peer:
            yield replace(case, group=kind, root=_root(row, spec, smallest))


def _case(row: Operation, spec: SuiteSpec, *, in_place: bool) -> Case:
    without_type = row.form in (Form.OBJECT, Form.PLAIN)
    return Case(
        operation=row.name,
        form=row.form,
        group=GroupKind.WORLD,
        in_place=in_place,
        asynchronous=False,
        dtype=Dtype.UINT8 if without_type else spec.dtype,
        redop=spec.redop if row.reduces else None,
        root=spec.root if row.rooted else None,
    )


def _root(row: Operation, spec: SuiteSpec, group_size: int) -> int | None:
    return spec.root % group_size if row.rooted else None


def _sized(row: Operation, case: Case, spec: SuiteSpec, topology: Topology) -> Iterator[Step]:
    """One step per size; sizes that come out the same in the first group are done once."""
    group_size = len(members(case.group, topology)[0])
    element_bytes = ELEMENT_BYTES[case.dtype]
    done: set[int] = set()
    for size_bytes in spec.sizes_bytes:
        count = size_bytes // element_bytes
        used = true_count(row.counting, count, group_size=group_size, element_bytes=element_bytes)
        if used in done:
            continue
        done.add(used)
        yield Step(
            number=0,
            case=case,
            size_bytes=0 if row.counting is Counting.NOTHING else size_bytes,
            count=count,
            verify=spec.check,
            time=True,
        )


def _matrix(spec: SuiteSpec, topology: Topology) -> Iterator[Step]:
    """Every operation in its main form with every dtype and operator, proved and not timed."""
    del topology
    for name in dict.fromkeys(row.name for row in _rows(spec)):
        row = operations.forms_of(name)[0]
        typed = row.form not in (Form.OBJECT, Form.PLAIN)
        for dtype in Dtype if typed else (Dtype.UINT8,):
            for redop in Redop if row.reduces else (None,):
                case = replace(_case(row, spec, in_place=row.in_place[0]), dtype=dtype, redop=redop)
                yield _untimed(case, MATRIX_BYTES if row.counting is not Counting.NOTHING else 0)


def _show(spec: SuiteSpec, topology: Topology) -> Iterator[Step]:
    """What is no collective, then each operation, with each operator; lists read best."""
    del topology
    for name in SHOWN_FIRST:
        yield _untimed(_scene(name, spec), SHOW_BYTES)
    for name in dict.fromkeys(row.name for row in _rows(spec)):
        rows = operations.forms_of(name)
        row = next((row for row in rows if row.form is Form.LIST), rows[0])
        for redop in SHOWN_REDOPS if row.reduces else (None,):
            case = replace(_case(row, spec, in_place=row.in_place[0]), redop=redop)
            yield _untimed(case, SHOW_BYTES)


def _scene(name: str, spec: SuiteSpec) -> Case:
    """A case that no row of the table describes; its form says so."""
    return Case(
        operation=name,
        form=Form.SCENE,
        group=GroupKind.WORLD,
        in_place=False,
        asynchronous=False,
        dtype=spec.dtype,
        redop=None,
        root=None,
    )


def _untimed(case: Case, size_bytes: int) -> Step:
    return Step(
        number=0,
        case=case,
        size_bytes=size_bytes,
        count=size_bytes // ELEMENT_BYTES[case.dtype],
        verify=True,
        time=False,
    )
