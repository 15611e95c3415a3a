"""A case: one way of calling one operation, on one kind of group, with one element type."""

from dataclasses import dataclass

from ..cluster.compat import StrEnum
from .spec import Dtype, Redop


class Form(StrEnum):
    """How an operation takes its data."""

    TENSOR = "tensor"
    LIST = "list"
    UNEVEN = "uneven"  # one tensor, split in unequal parts
    UNEVEN_LIST = "uneven-list"
    RING = "ring"  # each rank sends to the next
    BOTH_WAYS = "both-ways"  # each rank sends to the next and to the previous
    OBJECT = "object"
    PLAIN = "plain"  # no data
    SCENE = "scene"  # a step of --show that is no operation of the table


class GroupKind(StrEnum):
    """Which ranks take part, each in one group of the kind."""

    WORLD = "world"
    HALVES = "halves"
    PARITY = "odd-even"
    NODE_LEADERS = "one-per-node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one row of the table is about. `redop` and `root` are None where there is none.

    `root` is a rank within the group.
    """

    operation: str
    form: Form
    group: GroupKind
    in_place: bool
    asynchronous: bool
    dtype: Dtype
    redop: Redop | None
    root: int | None

    @property
    def label(self) -> str:
        """What messages call it: `all_reduce (tensor, odd-even, async) float32 sum`."""
        traits = [str(self.form)]
        if self.in_place:
            traits.append("in place")
        if self.group is not GroupKind.WORLD:
            traits.append(str(self.group))
        if self.asynchronous:
            traits.append("async")
        redop = f" {self.redop}" if self.redop else ""
        dtype = "" if self.form in (Form.PLAIN, Form.SCENE) else f" {self.dtype}"
        return f"{self.operation} ({', '.join(traits)}){dtype}{redop}"
