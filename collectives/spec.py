"""What a suite run is asked to do: a value that travels to the ranks as JSON."""

import dataclasses
import json
from dataclasses import dataclass

from ..cluster.compat import StrEnum

SPEC_VARIABLE = "RANKRUN_SUITE_SPEC"

# How long ranks may take to join: importing torch from a slow file system takes a while.
START_UP_S = 120.0


class Mode(StrEnum):
    """What the ranks do: time a sweep, show small tensors, or try every combination."""

    SWEEP = "sweep"
    SHOW = "show"
    MATRIX = "matrix"


class Redop(StrEnum):
    """Reduction operators, named as torch.distributed.ReduceOp names them."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"
    PREMUL_SUM = "premul_sum"


class Dtype(StrEnum):
    """Element types, named as torch names them."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    COMPLEX64 = "complex64"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E5M2 = "float8_e5m2"


ELEMENT_BYTES: dict[Dtype, int] = {
    Dtype.FLOAT16: 2,
    Dtype.BFLOAT16: 2,
    Dtype.FLOAT32: 4,
    Dtype.FLOAT64: 8,
    Dtype.INT8: 1,
    Dtype.UINT8: 1,
    Dtype.INT16: 2,
    Dtype.INT32: 4,
    Dtype.INT64: 8,
    Dtype.BOOL: 1,
    Dtype.COMPLEX64: 8,
    Dtype.FLOAT8_E4M3FN: 1,
    Dtype.FLOAT8_E5M2: 1,
}


class Backend(StrEnum):
    """torch.distributed backends; auto: nccl where every rank has a GPU, else gloo."""

    AUTO = "auto"
    GLOO = "gloo"
    NCCL = "nccl"


class Device(StrEnum):
    """Where the tensors live; auto: cuda with nccl, else cpu."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpec:
    """One suite run. Sizes are in bytes as nccl-tests counts them; see `operations`.

    `operations` are names of the table, none meaning all; `budget_s` bounds the timed calls of one
    size; `start_up_s` is how long ranks may take to join; `fault` is a self-test of the alarms
    (see `faults`); `first_step` is the number of the step (from 1) with which a run goes on that
    a crash cut short.
    """

    mode: Mode = Mode.SWEEP
    operations: tuple[str, ...]
    sizes_bytes: tuple[int, ...]
    iterations: int = 20
    warmup: int = 5
    budget_s: float = 0.5
    deadline_s: float = 60.0
    start_up_s: float = START_UP_S
    dtype: Dtype = Dtype.FLOAT32
    redop: Redop = Redop.SUM
    root: int = 0
    backend: Backend = Backend.AUTO
    device: Device = Device.AUTO
    check: bool = True
    seed: int = 1
    fault: str | None = None
    first_step: int = 0

    def to_json(self) -> str:
        """As it stands in RANKRUN_SUITE_SPEC and suite.json."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "SuiteSpec":
        """The inverse of `to_json`; written by us alone, so trusted."""
        fields = json.loads(text)
        kinds = {
            "mode": Mode, "dtype": Dtype, "redop": Redop, "backend": Backend, "device": Device,
            "operations": tuple, "sizes_bytes": tuple,
        }  # fmt: skip
        return cls(**{name: kinds.get(name, lambda v: v)(v) for name, v in fields.items()})
