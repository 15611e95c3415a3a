"""A backend's refusal told from a failure."""

import re

import torch.distributed as dist

# What torch raises when a backend does not do something.
_KINDS = (RuntimeError, ValueError, NotImplementedError, TypeError)
# Texts of gloo's transport, the store and NCCL when a call was attempted and went wrong.
_FAILURE = re.compile(
    r"timed? ?out|connection (?:closed|reset|refused|was)|read error|write error|broken pipe"
    r"|socket|unhandled (?:system|cuda) error|remote process|out of memory|CUDA error",
    re.IGNORECASE,
)


def is_refusal(error: Exception) -> bool:
    """Whether the backend says that it does not support a call.

    Anything else (a timeout, a lost connection, no memory) is a failure of the run.
    """
    if isinstance(error, (dist.DistNetworkError, dist.DistStoreError)):
        return False
    return isinstance(error, _KINDS) and not _FAILURE.search(str(error))


def reason(error: Exception) -> str:
    """The backend's own words: the first line that says something, at most 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
