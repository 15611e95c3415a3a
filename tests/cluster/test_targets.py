from pathlib import Path

import pytest

from rankrun.cluster.errors import UsageError
from rankrun.cluster.gpus import count_visible_gpus
from rankrun.cluster.targets import RANKS_WITHOUT_GPU, parse_target


def test_local_with_a_count() -> None:
    target = parse_target("local:3", environment={})
    assert target.launcher == "local"
    assert [host.slots for host in target.hosts] == [3]
    assert target.hosts[0].address == "127.0.0.1"


@pytest.mark.parametrize("text", [None, "local"])
def test_without_a_gpu_there_are_four_ranks(text: str | None) -> None:
    target = parse_target(text, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert target.hosts[0].slots == RANKS_WITHOUT_GPU


@pytest.mark.parametrize(
    "text", ["local:", "local:0", "local:-1", "local:x", "local:1.5", "local:٣", "local:9999"]
)
def test_a_bad_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="local:N"):
        parse_target(text)


@pytest.mark.parametrize("text", ["mars", "local2", "'; echo foo", ":4"])
def test_an_unknown_target_names_the_valid_ones(text: str) -> None:
    with pytest.raises(UsageError, match="valid: local"):
        parse_target(text)


@pytest.fixture
def four_gpus(tmp_path: Path) -> Path:
    for bus_id in ("0000:07:00.0", "0000:0a:00.0", "0000:47:00.0", "0000:4d:00.0"):
        (tmp_path / bus_id).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 4),
        ("", 0),
        ("0,1", 2),
        ("3", 1),
        ("0,9,1", 1),  # all from the first invalid index on are hidden
        ("-1", 0),
        ("GPU-8932f937,GPU-d2b9a1c4", 2),
        ("MIG-1a2b", 1),
    ],
)
def test_visible_gpus(four_gpus: Path, visible: str | None, count: int) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert count_visible_gpus(environment, proc=four_gpus) == count


def test_no_driver_no_gpu(tmp_path: Path) -> None:
    assert count_visible_gpus({"CUDA_VISIBLE_DEVICES": "0"}, proc=tmp_path / "none") == 0


def test_ssh_hosts_in_the_order_written_with_slots_where_said() -> None:
    target = parse_target("ssh:node[2-3]*2,alice@gpu1", environment={})
    assert target.launcher == "ssh"
    assert [(host.name, host.slots) for host in target.hosts] == [
        ("node2", 2),
        ("node3", 2),
        ("alice@gpu1", None),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ssh:", "no hosts"),
        ("ssh:a,a", "named twice"),
        ("ssh:a*2,a", "named twice"),
        ("ssh:a*0", "no host name"),
        ("ssh:-oProxyCommand=x", "no host name"),
    ],
)
def test_bad_ssh_targets(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_target(text, environment={})
