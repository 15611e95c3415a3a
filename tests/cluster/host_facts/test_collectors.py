"""The facts of this very machine, and captured text of what it has not."""

import ast
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from rankrun.cluster import host_facts
from rankrun.cluster.host_facts import collect, gpus, infiniband

FOLDER = Path(__file__).parents[3] / "cluster" / "host_facts"

# nvidia-smi --query-gpu=... --format=csv,noheader,nounits of a node with two GPUs.
TWO_GPUS = """\
0, NVIDIA H100 80GB HBM3, GPU-1b2c, 81559, 4, Enabled, 0, 5, 5, 16, 16, 0x0000000000000001
1, NVIDIA H100 80GB HBM3, GPU-3d4e, 81559, 70211, Enabled, 3, 5, 5, 8, 16, 0x0000000000000000
"""


def test_this_machine() -> None:
    facts = collect()
    assert facts["kernel"] == platform.release()
    assert facts["cpu.usable"] == len(os.sched_getaffinity(0))
    assert facts["limit.open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert facts["interface.lo.up"] is True
    assert facts["python.executable"] == sys.executable
    assert not [key for key in facts if key.startswith("unread.")]


def test_torch_is_found_without_importing_it() -> None:
    torch = pytest.importorskip("torch")
    assert collect()["torch.version"] == torch.__version__
    program = (
        "import sys; from rankrun.cluster.host_facts import collect; collect();"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_broken_corner_does_not_hide_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> host_facts.Facts:
        raise ValueError("no")

    monkeypatch.setitem(host_facts.COLLECTORS, "network", broken)
    facts = collect()
    assert facts["unread.network"] == "ValueError: no"
    assert "kernel" in facts


def test_a_missing_place_is_said() -> None:
    facts = collect(places=["/nowhere"])
    assert facts["disk./nowhere.missing"] == "No such file or directory"


def test_gpus() -> None:
    facts = gpus.parse_gpus(TWO_GPUS)
    assert facts["gpu.count"] == 2
    assert facts["gpu.models"] == ["NVIDIA H100 80GB HBM3"]
    assert facts["gpu.1.memory.used"] == 70211
    assert facts["gpu.1.pcie.link.width.current"] == 8


def test_infiniband(tmp_path: Path) -> None:
    port = tmp_path / "mlx5_0" / "ports" / "1"
    for folder in ("counters", "hw_counters", "gids"):
        (port / folder).mkdir(parents=True)
    (port / "state").write_text("1: DOWN\n")
    (port / "phys_state").write_text("2: Polling\n")
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    (port / "link_layer").write_text("InfiniBand\n")
    (port / "counters" / "symbol_error").write_text("0\n")
    (port / "counters" / "link_downed").write_text("3\n")
    (port / "gids" / "0").write_text("fe80:0000:0000:0000:0c42:a103:0065:1234\n")
    (port / "gids" / "1").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    facts = infiniband.collect(tmp_path)
    assert facts["ib.mlx5_0:1.state"] == "DOWN"
    assert facts["ib.mlx5_0:1.rate"] == "400 Gb/sec (4X NDR)"
    assert facts["ib.mlx5_0:1.link_downed"] == 3
    assert "ib.mlx5_0:1.symbol_error" not in facts
    assert facts["ib.mlx5_0:1.gids"] == ["0 fe80:0000:0000:0000:0c42:a103:0065:1234"]


ON_CONTROLLER = {"rules", "comparison"}
ON_HOSTS = [path for path in sorted(FOLDER.glob("*.py")) if path.stem not in ON_CONTROLLER]


@pytest.mark.parametrize("path", ON_HOSTS, ids=lambda path: path.stem)
def test_collectors_run_on_python_39(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    modules = {
        node.names[0].name if isinstance(node, ast.Import) else (node.module or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "level", 0) == 0
    }
    assert {module.partition(".")[0] for module in modules} <= set(sys.stdlib_module_names)
