"""A backend's refusal told from a failure.

Only what is known to be a refusal is one: an unknown error ends the run, since "unsupported"
would hide it. A new backend's or a new torch's words are a line in the table below, with a case
in the test.
"""

import re
from collections.abc import Callable

import torch.distributed as dist

from ...cluster.errors import RankrunError
from ..cases import Case, Form
from ..spec import Dtype, Redop

# What torch raises when a backend does not do something (NotImplementedError is a RuntimeError).
KINDS = (RuntimeError, ValueError, TypeError)
# How it says so.
_WORDS = re.compile(
    r"\bunsupported\b"
    r"|\b(?:not|n't) (?:currently )?support(?:ed)?\b"
    r"|not (?:yet )?implemented\b"
    r"|Invalid scalar type"  # gloo: a dtype
    r"|Cannot use ReduceOp\.\w+ with"  # gloo and NCCL: an operator
    r"|can't be cast to the desired output type"  # gloo: an average of integers
    r"|alltoall: invalid tensor size"  # gloo: lists of unequal parts
    r"|Unconvertible NCCL type"
    r"|PreMulSum Data type must be"  # NCCL
    r"|Numpy is not available"  # object collectives
    r"|rank should not be the same as the rank of the current process"  # a message to itself
    r"|Pair is not connected .*<--> \[none\]",  # gloo: the same; a lost pair names its peer
    re.IGNORECASE,
)
# NCCL has one error for all; of its results these mean that the arguments are at fault.
_NCCL_WORDS = re.compile(r"\binvalid (?:argument|usage)\b", re.IGNORECASE)
# Words of a failure, whatever else is said.
_FAILURE = re.compile(
    r"timed? ?out|connection (?:closed|reset|refused|was)|read error|write error|broken pipe"
    r"|socket|unhandled (?:system|cuda) error|internal error|remote process|out of memory"
    r"|CUDA error|duplicate GPU",
    re.IGNORECASE,
)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]+")

# What every backend of torch does; refused, the backend does not work at all.
_EVERY_BACKEND_DOES = frozenset({"broadcast", "all_reduce", "barrier"})


class RefusedError(RankrunError):
    """A refusal that is no mere lack of support."""


def refusal_of(call: Callable[[], object]) -> str | None:
    """Make a call: None if the backend does it, else its own words.

    Raises:
        Exception: whatever is no refusal.
    """
    try:
        call()
    except KINDS as error:
        if not is_refusal(error):
            raise
        return reason(error)
    return None


def is_refusal(error: Exception) -> bool:
    """Whether the backend says that it does not support a call.

    Anything else (a timeout, a lost connection, no memory, a mistake of ours) is a failure.
    """
    if isinstance(error, (dist.DistNetworkError, dist.DistStoreError)):
        return False
    words = _NCCL_WORDS if isinstance(error, dist.DistBackendError) else _WORDS
    text = str(error)
    return isinstance(error, KINDS) and bool(words.search(text)) and not _FAILURE.search(text)


def is_basic(case: Case) -> bool:
    """Whether every backend does this, so that its refusal is a failure."""
    return case.operation in _EVERY_BACKEND_DOES and (
        case.form is Form.PLAIN or (case.dtype is Dtype.FLOAT32 and case.redop in (None, Redop.SUM))
    )


def reason(error: Exception) -> str:
    """The backend's own words: the first line that says something, at most 300 characters."""
    lines = [_UNPRINTABLE.sub(" ", line).strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)[:300]
