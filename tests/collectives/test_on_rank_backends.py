"""Which backend and device, decided alike on all ranks; and refusals told from failures."""

import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.on_rank.backends import (
    BackendError,
    Choice,
    RankFacts,
    all_have_own_gpu,
    choose,
    gpu_index,
)
from rankrun.collectives.on_rank.refusals import is_refusal, reason
from rankrun.collectives.spec import Backend, Device, SuiteSpec


def spec(backend: Backend = Backend.AUTO, device: Device = Device.AUTO) -> SuiteSpec:
    return SuiteSpec(operations=(), sizes_bytes=(8,), backend=backend, device=device)


def ranks(*gpus: str | None) -> list[RankFacts]:
    return [
        RankFacts(host="a", local_rank=number, num_gpus=int(gpu is not None), gpu=gpu)
        for number, gpu in enumerate(gpus)
    ]


OWN = ranks("a/0", "a/1")
SHARED = ranks("a/0", "a/0")
NONE = ranks(None, None)


@pytest.mark.parametrize(
    ("asked", "facts", "has_nccl", "backend", "device"),
    [
        (spec(), OWN, True, Backend.NCCL, Device.CUDA),
        (spec(), OWN, False, Backend.GLOO, Device.CPU),
        (spec(), SHARED, True, Backend.GLOO, Device.CPU),
        (spec(), NONE, True, Backend.GLOO, Device.CPU),
        (spec(), ranks("a/0", None), True, Backend.GLOO, Device.CPU),
        (spec(device=Device.CPU), OWN, True, Backend.GLOO, Device.CPU),
        (spec(Backend.GLOO), OWN, True, Backend.GLOO, Device.CPU),
        (spec(Backend.GLOO, Device.CUDA), SHARED, True, Backend.GLOO, Device.CUDA),
        (spec(Backend.NCCL), OWN, True, Backend.NCCL, Device.CUDA),
    ],
)
def test_choice(
    *, asked: SuiteSpec, facts: list[RankFacts], has_nccl: bool, backend: Backend, device: Device
) -> None:
    assert choose(asked, facts, has_nccl=has_nccl) == Choice(backend=backend, device=device)


@pytest.mark.parametrize(
    ("asked", "facts", "has_nccl", "message"),
    [
        (spec(Backend.NCCL), NONE, True, "device cuda: ranks 0, 1 have no GPU; use --device cpu"),
        (spec(Backend.NCCL), ranks("a/0", None), True, "device cuda: rank 1 has no GPU"),
        (spec(Backend.NCCL), SHARED, True, "ranks 0 and 1 share GPU a/0; start one rank per GPU"),
        (spec(Backend.NCCL), OWN, False, "this torch was built without it; use --backend gloo"),
        (spec(Backend.NCCL, Device.CPU), OWN, True, "works on device cuda only"),
        (spec(Backend.GLOO, Device.CUDA), NONE, False, "device cuda: ranks 0, 1 have no GPU"),
    ],
)
def test_what_cannot_be_is_said_with_the_next_move(
    asked: SuiteSpec, facts: list[RankFacts], has_nccl: bool, message: str
) -> None:
    with pytest.raises(BackendError) as caught:
        choose(asked, facts, has_nccl=has_nccl)
    assert message in str(caught.value)


@given(st.integers(1, 16), st.integers(0, 31))
def test_gpus_go_round(num_gpus: int, local_rank: int) -> None:
    assert 0 <= gpu_index(local_rank, num_gpus) < num_gpus
    if local_rank < num_gpus:
        assert gpu_index(local_rank, num_gpus) == local_rank
    # A launcher that shows each rank one GPU: it is number 0 for all of them.
    assert gpu_index(local_rank, 1) == 0


def test_own_gpus() -> None:
    assert all_have_own_gpu(OWN)
    assert not all_have_own_gpu(SHARED)
    assert not all_have_own_gpu(ranks("a/0", None))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Invalid scalar type"),
        RuntimeError("Cannot use ReduceOp.BAND with non-integral dtype"),
        ValueError("all_reduce does not support RedOpType.MIN on complex tensors"),
        TypeError("Input tensor data type is not supported for NCCL process group: Short"),
        NotImplementedError("\"add\" not implemented for 'Float8_e4m3fn'"),
        dist.DistBackendError("NCCL error in: ..., invalid usage (run with NCCL_DEBUG=WARN)"),
    ],
)
def test_refusals(error: Exception) -> None:
    assert is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[...pair.cc:553] Connection closed by peer [127.0.0.1]:42672."),
        RuntimeError("[...pair.cc:537] Read error [::1]:1: Connection reset by peer"),
        RuntimeError("[...unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation"),
        dist.DistNetworkError("The client socket has timed out"),
        dist.DistStoreError("Timed out after 7 seconds waiting for clients. 1/2 clients joined."),
        dist.DistBackendError("NCCL error ... remote process exited or there was a network error"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        AssertionError("ours"),
        IndexError("ours"),
    ],
)
def test_failures(error: Exception) -> None:
    assert not is_refusal(error)


def test_reason_is_the_first_line_that_says_something() -> None:
    assert reason(RuntimeError("\n  Invalid scalar type \nat line 3")) == "Invalid scalar type"
    assert reason(RuntimeError("")) == "RuntimeError"
    assert len(reason(RuntimeError("x" * 1000))) == 300
