"""Which backend and device, decided alike on all ranks; and refusals told from failures."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from rankrun.collectives.on_rank.backends import (
    START_UP_MARGIN_S,
    BackendError,
    Choice,
    RankFacts,
    Session,
    all_have_own_gpu,
    choose,
    gpu_index,
    may_use_gpus,
    own_facts,
    timeouts,
)
from rankrun.collectives.on_rank.refusals import is_refusal, reason, refusal_of
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


class FakeGpus:
    """torch.cuda of a host with four GPUs; notes what is asked of it, in order."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.notes: list[str] = []

    def is_available(self) -> bool:
        return self.works

    def device_count(self) -> int:
        return 4

    def set_device(self, device: int) -> None:
        self.notes.append(f"set {device}")

    def get_device_properties(self, device: int) -> object:
        self.notes.append(f"ask {device}")
        return SimpleNamespace(uuid=f"GPU-{device}")


def test_a_rank_takes_its_gpu_before_it_asks_anything_of_cuda() -> None:
    gpus = FakeGpus()
    facts = own_facts(spec(), gpus, {"LOCAL_RANK": "2"})
    assert gpus.notes == ["set 2", "ask 2"]
    assert (facts.local_rank, facts.num_gpus) == (2, 4)
    assert (facts.gpu or "").endswith("/GPU-2")


@pytest.mark.parametrize(
    ("asked", "works"),
    [(spec(device=Device.CPU), True), (spec(Backend.GLOO), True), (spec(), False)],
)
def test_no_gpu_is_touched_without_need(*, asked: SuiteSpec, works: bool) -> None:
    gpus = FakeGpus(works=works)
    assert own_facts(asked, gpus, {}).gpu is None
    assert gpus.notes == []


@pytest.mark.parametrize("backend", Backend)
@pytest.mark.parametrize("device", Device)
def test_a_gpu_that_is_used_was_looked_at(backend: Backend, device: Device) -> None:
    asked = spec(backend, device)
    if not may_use_gpus(asked) and (backend, device) != (Backend.NCCL, Device.CPU):
        assert choose(asked, OWN, has_nccl=True).device is Device.CPU


def test_ranks_wait_longer_than_the_controller() -> None:
    """Whose alarm knows more: see `hangs`."""
    start_up, call = timeouts(replace(spec(), start_up_s=600.0, deadline_s=5.0))
    assert start_up.total_seconds() == 600 + START_UP_MARGIN_S
    assert call.total_seconds() == 2 * 5 + 30


class FakeStore:
    """The bare store of a run; notes what it is asked."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def set(self, key: str, value: str) -> None:
        self.notes.append(f"set {key}{value}")

    def wait(self, keys: list[str]) -> None:
        self.notes.append(f"wait for {', '.join(keys)}")


@pytest.mark.parametrize(
    ("rank", "last"),
    [(0, "wait for rankrun/left/1, rankrun/left/2"), (2, "set rankrun/left/2")],
)
def test_the_store_stays_until_all_groups_are_gone(
    rank: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(dist, "barrier", lambda _: notes.append("barrier"))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: notes.append("destroy"))
    session = Session.__new__(Session)
    session.rank, session.world_size, session._control = rank, 3, None
    session._store = cast("Any", FakeStore(notes))
    session.leave()
    assert notes == ["barrier", "destroy", last]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Invalid scalar type"),
        RuntimeError("Cannot use ReduceOp.BAND with non-integral dtype"),
        RuntimeError("Cannot use ReduceOp.PREMUL_SUM with Gloo"),
        RuntimeError("result type Float can't be cast to the desired output type Long"),
        RuntimeError("reduce does not support\x07on complex tensors"),
        RuntimeError("ProcessGroupGloo::alltoall: invalid tensor size at index 1 (expected (1)"),
        RuntimeError(
            "[enforce fail at .../gloo/transport/tcp/pair.cc:801] state_ >= CONNECTED. 1 vs 4. "
            "Pair is not connected ([127.0.0.1]:28040$0 <--> [none])"
        ),
        RuntimeError("Numpy is not available"),
        ValueError("all_reduce does not support RedOpType.MIN on complex tensors"),
        ValueError("Cannot use ReduceOp.BXOR with NCCL"),
        ValueError("Invalid destination rank: destination rank should not be the same as the rank "
                   "of the current process."),
        TypeError("Input tensor data type is not supported for NCCL process group: Short"),
        TypeError("Float8 dtypes are not currently supported for NCCL reductions"),
        NotImplementedError("\"add\" not implemented for 'Float8_e4m3fn'"),
        dist.DistBackendError("NCCL error in: ..., invalid usage (run with NCCL_DEBUG=WARN)"),
        dist.DistBackendError("NCCL error in: ..., invalid argument, NCCL version 2.27.5"),
    ],
)  # fmt: skip
def test_refusals(error: Exception) -> None:
    assert is_refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[...pair.cc:553] Connection closed by peer [127.0.0.1]:42672."),
        RuntimeError("[...pair.cc:537] Read error [::1]:1: Connection reset by peer"),
        RuntimeError("[...pair.cc:801] Pair is not connected ([::1]:28040$0 <--> [::1]:2$1)"),
        RuntimeError("[...unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation"),
        dist.DistNetworkError("The client socket has timed out"),
        dist.DistStoreError("Timed out after 7 seconds waiting for clients. 1/2 clients joined."),
        dist.DistBackendError("NCCL error ... remote process exited or there was a network error"),
        dist.DistBackendError("NCCL error in: ..., internal error - please report this issue"),
        dist.DistBackendError("NCCL error ... invalid usage. Last error: Duplicate GPU detected"),
        dist.DistBackendError("NCCL operation is not supported in this state"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: operation not supported"),
        RuntimeError("nobody has ever seen these words"),
        TypeError("all_reduce() got an unexpected keyword argument 'asynchronous'"),
        TypeError("all_gather() missing 1 required positional argument: 'tensor'"),
        ValueError("tensor sizes do not match"),
        AssertionError("ours"),
        IndexError("ours"),
        ImportError("not supported"),
    ],
)
def test_failures(error: Exception) -> None:
    assert not is_refusal(error)

    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        refusal_of(fail)


def test_a_refusal_in_the_backends_words() -> None:
    def refuse() -> None:
        raise RuntimeError("Invalid scalar type")

    assert refusal_of(refuse) == "Invalid scalar type"
    assert refusal_of(lambda: None) is None


def test_reason_is_the_first_line_that_says_something() -> None:
    assert reason(RuntimeError("\n  Invalid scalar type \nat line 3")) == "Invalid scalar type"
    assert reason(RuntimeError("")) == "RuntimeError"
    assert len(reason(RuntimeError("x" * 1000))) == 300
    # torch writes an operator as the byte of its number here.
    assert reason(RuntimeError("not support\x07on it")) == "not support on it"
