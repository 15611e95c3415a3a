import json
from pathlib import Path

import pytest

from rankrun.cluster.errors import UsageError
from rankrun.cluster.hosts import Host
from rankrun.cluster.secrets import MASK
from rankrun.jobs.environment import CONTRACT, PORT_AT_START
from rankrun.jobs.plan import (
    LaunchPlan,
    Limits,
    PlanRequest,
    ResolvedTarget,
    build_plan,
    plan_document,
    render_plan,
    shared_environment,
)

GOLDEN = Path(__file__).parent.parent / "golden"

# torchrun's contract, from its documentation, written out a second time on purpose.
TORCHRUN = {
    "LOCAL_RANK", "RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "LOCAL_WORLD_SIZE", "WORLD_SIZE",
    "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE",
}  # fmt: skip


def request(**changes: object) -> PlanRequest:
    uneven = (
        Host(name="node0", address="10.77.0.1", slots=2, interface="eth0"),
        Host(name="node1", address="10.77.0.2", slots=1, interface="ib0"),
    )
    defaults: dict[str, object] = {
        "run_id": "20261201-000000.000-launch-0000",
        "argv": ("python", "train.py", "--token", "abc", "it's"),
        "target": ResolvedTarget(text="made", launcher="local", hosts=uneven),
        "run_folder": Path("/runs/20261201-000000.000-launch-0000"),
        "workdir": Path("/work dir"),
        "environment": {"PATH": "/bin", "NCCL_ALGO": "Ring", "HF_TOKEN": "abc", "RANK": "77"},
        "settings": {"NCCL_DEBUG": "INFO", "MY_SECRET": "abc"},
    }
    return PlanRequest(**(defaults | changes))  # type: ignore[arg-type]


def environments(plan: LaunchPlan) -> list[dict[str, str]]:
    return [dict(planned.environment) for planned in plan.ranks]


def test_golden() -> None:
    plan = build_plan(request(limits=Limits(deadline_s=60)))
    assert render_plan(plan) == (GOLDEN / "plan.txt").read_text()


def test_the_whole_contract_of_torchrun_is_set() -> None:
    assert set(CONTRACT) == TORCHRUN
    for environment in environments(build_plan(request())):
        assert set(environment) >= TORCHRUN


def test_uneven_hosts() -> None:
    first, second, third = environments(build_plan(request()))
    assert [e["RANK"] for e in (first, second, third)] == ["0", "1", "2"]
    assert [e["LOCAL_RANK"] for e in (first, second, third)] == ["0", "1", "0"]
    assert [e["LOCAL_WORLD_SIZE"] for e in (first, second, third)] == ["2", "2", "1"]
    assert [e["GROUP_RANK"] for e in (first, second, third)] == ["0", "0", "1"]
    assert {e["MASTER_ADDR"] for e in (first, second, third)} == {"10.77.0.1"}
    assert [e["NCCL_SOCKET_IFNAME"] for e in (first, second, third)] == ["=eth0", "=eth0", "=ib0"]
    assert [e["GLOO_SOCKET_IFNAME"] for e in (first, second, third)] == ["eth0", "eth0", "ib0"]


def test_what_a_user_set_is_kept() -> None:
    kept = {"OMP_NUM_THREADS": "7", "GLOO_SOCKET_IFNAME": "eth9", "PYTHONUNBUFFERED": ""}
    plan = build_plan(request(environment=kept, settings={"NCCL_SOCKET_IFNAME": "^docker"}))
    for environment in environments(plan):
        assert not kept.keys() & environment.keys()
        assert environment["NCCL_SOCKET_IFNAME"] == "^docker"


def test_one_rank_on_a_host_keeps_its_threads() -> None:
    first, _, third = environments(build_plan(request()))
    assert first["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in third


def test_settings_win_over_the_contract() -> None:
    plan = build_plan(request(settings={"MASTER_ADDR": "10.0.0.9"}))
    assert {e["MASTER_ADDR"] for e in environments(plan)} == {"10.0.0.9"}


def test_no_secret_in_what_is_shown() -> None:
    plan = build_plan(request())
    for shown in (render_plan(plan), json.dumps(plan_document(plan))):
        assert "abc" not in shown
        assert MASK in shown


def test_shared_is_what_all_ranks_have_alike() -> None:
    document = plan_document(build_plan(request()))
    shared = shared_environment(document)
    assert shared["WORLD_SIZE"] == "3"
    assert shared["MASTER_PORT"] == PORT_AT_START
    assert not {"RANK", "LOCAL_RANK", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS"} & shared.keys()


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(UsageError, match="no command"):
        build_plan(request(argv=()))


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"])
def test_what_tells_ranks_apart_cannot_be_set_for_all(name: str) -> None:
    with pytest.raises(UsageError, match=f"--env {name}"):
        build_plan(request(settings={name: "7"}))
