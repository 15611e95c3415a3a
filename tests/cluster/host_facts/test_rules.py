"""Each rule with facts that fire it and facts close by that do not."""

import pytest

from rankrun.cluster.host_facts import Facts
from rankrun.cluster.host_facts.comparison import differences
from rankrun.cluster.host_facts.rules import RULES, judge_host

HEALTHY: Facts = {
    "python.executable": "/usr/bin/python3",
    "torch.path": "/venv/torch",
    "limit.memlock_bytes": "unlimited",
    "limit.open_files": 65536,
    "disk./dev/shm.free_mib": 64000,
    "disk./tmp.free_mib": 64000,
    "disk./tmp.writable": True,
    "name.addresses": ["10.77.0.1"],
    "ib.device_files": True,
    "ib.mlx5_0:1.state": "ACTIVE",
    "gdr.modules": ["nvidia_peermem"],
    "gpu.count": 8,
    "gpu.0.memory.used": 4,
    "gpu.0.ecc.errors.uncorrected.volatile.total": 0,
    "gpu.0.pcie.link.width.current": 16,
    "gpu.0.pcie.link.width.max": 16,
    "cpu.governor": "performance",
    "cpu.usable": 96,
    "load_1min": 12.0,
}
# cause: what makes it fire, and what it must name
FIRES: dict[str, tuple[Facts, str]] = {
    "xid": ({"gpu.xids": ["79 at PCI:0000:3b:00"]}, "Xid 79 at PCI:0000:3b:00"),
    "gpu-ecc": ({"gpu.0.ecc.errors.uncorrected.volatile.total": 3}, "GPU 0: 3"),
    "ib-port-inactive": ({"ib.mlx5_0:1.state": "INIT"}, "mlx5_0:1 is INIT"),
    "ib-device-files-missing": ({"ib.device_files": False}, "/dev/infiniband"),
    "memlock": ({"limit.memlock_bytes": 65536}, "65536 bytes"),
    "tmp-full": ({"disk./tmp.free_mib": 3}, "/tmp has 3 MiB"),
    "shm-small": ({"disk./dev/shm.free_mib": 64}, "64 MiB"),
    "ib-errors": ({"ib.mlx5_0:1.link_downed": 3}, "mlx5_0:1 link_downed 3"),
    "gpu-direct-off": ({"gdr.modules": []}, "nvidia_peermem"),
    "acs-enabled": ({"pcie.acs_enabled": 7}, "7 devices"),
    "gpu-in-use": ({"gpu.0.memory.used": 70211}, "GPU 0: 70211 MiB"),
    "pcie-narrow": ({"gpu.0.pcie.link.width.current": 8}, "GPU 0 x8 of x16"),
    "host-name-unresolved": ({"name.unresolved": "a: Name or service not known"}, "not known"),
    "host-name-loopback": ({"name.addresses": ["127.0.1.1"]}, "127.0.1.1"),
    "open-files": ({"limit.open_files": 1024}, "1024"),
    "host-busy": ({"load_1min": 400.0}, "load 400"),
    "cpu-governor": ({"cpu.governor": "powersave"}, "powersave"),
    "variables-set": ({"environment.NCCL_ALGO": "Ring"}, "NCCL_ALGO"),
    "facts-unread": ({"unread.gpus": "ValueError: no"}, "gpus: ValueError: no"),
}
# Close by, and harmless.
SILENT: list[Facts] = [
    {"name.addresses": ["127.0.1.1", "10.77.0.1"]},
    {"gpu.0.memory.used": 500},
    {"ib.mlx5_0:1.rate": "400 Gb/sec (4X NDR)"},
    {"disk./tmp.free_mib": 512},
]


def test_a_healthy_host() -> None:
    assert judge_host("node0", HEALTHY) == []


@pytest.mark.parametrize("cause", FIRES)
def test_it_fires_alone_and_names_the_culprit(cause: str) -> None:
    change, named = FIRES[cause]
    (finding,) = judge_host("node0", {**HEALTHY, **change})
    assert finding.cause == cause
    assert finding.message.startswith("node0: ")
    assert named in finding.message


@pytest.mark.parametrize("change", SILENT, ids=str)
def test_near_misses(change: Facts) -> None:
    assert judge_host("node0", {**HEALTHY, **change}) == []


def test_torch_missing() -> None:
    facts = {key: value for key, value in HEALTHY.items() if key != "torch.path"}
    assert [finding.cause for finding in judge_host("node0", facts)] == ["torch-missing"]


def test_every_rule_has_its_case() -> None:
    assert {rule.cause for rule in RULES} == {*FIRES, "torch-missing"}


def test_without_infiniband_and_gpus_their_rules_are_silent() -> None:
    facts = {k: v for k, v in HEALTHY.items() if not k.startswith(("ib.", "gpu.", "gdr."))}
    changed = {**facts, "limit.memlock_bytes": 65536, "cpu.governor": "powersave"}
    assert judge_host("node0", changed) == []


def test_differences_are_folded_and_what_is_a_hosts_own_is_left_out() -> None:
    facts: dict[str, Facts] = {
        "node0": {"torch.version": "2.13.0", "host_name": "node0", "load_1min": 1.0},
        "node1": {"torch.version": "2.13.0", "host_name": "node1", "load_1min": 2.0},
        "node2": {"torch.version": "2.12.1", "host_name": "node2", "load_1min": 3.0},
    }
    (found,) = differences(facts)
    assert found.key == "torch.version"
    assert found.values == (("2.13.0", ("node0", "node1")), ("2.12.1", ("node2",)))


def test_a_fact_that_one_host_lacks_is_a_difference() -> None:
    (found,) = differences({"node0": {"nccl.version": "2.28.3"}, "node1": {}})
    assert (None, ("node1",)) in found.values
