import json
from dataclasses import replace
from pathlib import Path

from rankrun.collectives.comparison import (
    Toggle,
    ToggleResult,
    comparison_lines,
    join,
    plan_toggle,
)
from rankrun.collectives.documents import SuiteFacts
from rankrun.collectives.measurement import Combine, Measurement, Status
from rankrun.collectives.spec import SuiteSpec
from rankrun.collectives.suite_plan import SuiteRequest
from rankrun.collectives.suite_result import SuiteResult

from ..targets import local_target
from .samples import CASE, GATHER, JOINED, measurement

GOLDEN = Path(__file__).parent.parent / "golden"
SPEC = SuiteSpec(operations=("all_reduce",), sizes_bytes=(8, 1024))
TOGGLE = Toggle(name="NCCL_P2P_DISABLE", value="1")


def result(measurements: list[Measurement], exit_code: int = 0) -> SuiteResult:
    return SuiteResult(
        facts=SuiteFacts(
            run_id="run",
            run_folder="/runs/run",
            target="local:4",
            world_size=4,
            combine=Combine.AVG,
            exit_code=exit_code,
            joined=JOINED,
        ),
        spec=SPEC,
        steps=(),
        measurements=tuple(measurements),
        findings=(),
    )


BOTH = ToggleResult(
    toggle=TOGGLE,
    value_without=None,
    without=result(
        [
            measurement(CASE, 8, time_us=10),
            measurement(CASE, 1 << 20, time_us=1000),
            measurement(GATHER, 8, time_us=5, group_size=1),
            measurement(GATHER, 1024, time_us=5),
        ]
    ),
    toggled=result(
        [
            measurement(CASE, 8, time_us=20),
            measurement(CASE, 1 << 20, time_us=500),
            measurement(GATHER, 8, time_us=5, group_size=1),
            measurement(GATHER, 1024, time_us=None, status=Status.UNSUPPORTED),
        ]
    ),
)


def test_golden() -> None:
    text = "\n".join(comparison_lines(BOTH)) + "\n"
    assert text == (GOLDEN / "toggle.txt").read_text()


def test_ratios_are_with_over_without() -> None:
    slower, faster, same, half = BOTH.pairs
    assert (slower.time_ratio, slower.busbw_ratio) == (2.0, 0.5)
    assert (faster.time_ratio, faster.busbw_ratio) == (0.5, 2.0)
    assert (same.time_ratio, same.busbw_ratio) == (1.0, None)
    assert (half.time_ratio, half.busbw_ratio) == (None, None)


def test_only_what_both_measured_is_joined() -> None:
    rows = [measurement(CASE, 8), measurement(GATHER, 8)]
    assert [pair.without.case for pair in join(rows, rows[1:])] == [GATHER]
    assert comparison_lines(replace(BOTH, toggled=result([])))[-1].startswith("# nothing")


def test_document() -> None:
    document = json.loads(json.dumps(BOTH.document()))
    assert (document["schema"], document["variable"], document["value"]) == (
        "rankrun.toggle/1", "NCCL_P2P_DISABLE", "1",
    )  # fmt: skip
    assert document["rows"][0]["time_us"]["ratio"] == 2.0
    assert len(document["with"]["rows"]) == 4


def test_the_worse_exit_code_wins() -> None:
    assert BOTH.exit_code == 0
    assert replace(BOTH, toggled=result([], exit_code=1)).exit_code == 1
    assert replace(BOTH, without=result([], exit_code=130)).exit_code == 130


def test_a_second_run_that_never_was_is_not_made_up() -> None:
    alone = replace(BOTH, without=result([], exit_code=130), toggled=None)
    assert alone.exit_code == 130
    assert alone.pairs == []
    assert alone.document()["with"] is None
    assert "there was no run with NCCL_P2P_DISABLE=1" in comparison_lines(alone)[-1]


def test_what_rankrun_sets_by_itself_is_said() -> None:
    own = replace(BOTH, toggle=Toggle(name="GLOO_SOCKET_IFNAME", value="eth1"), value_without="lo")
    text = "\n".join(comparison_lines(own))
    assert "without GLOO_SOCKET_IFNAME (rankrun then takes lo) and with" in text
    assert own.document()["value_without"] == "lo"


def test_without_means_unset_wherever_it_came_from(tmp_path: Path) -> None:
    request = SuiteRequest(
        run_id="20261201-000000.000-suite-0000",
        spec=SPEC,
        target=local_target(2),
        runs=tmp_path,
        workdir=tmp_path,
        environment={"NCCL_P2P_DISABLE": "0", "PATH": "/bin"},
        settings={"NCCL_P2P_DISABLE": "2", "NCCL_ALGO": "Ring"},
    )
    without, toggled = plan_toggle(request, TOGGLE)
    for planned in without.launch.ranks:
        variables = {**without.launch.inherited, **planned.environment}
        assert "NCCL_P2P_DISABLE" not in variables
        assert variables["NCCL_ALGO"] == "Ring"
    for planned in toggled.launch.ranks:
        assert planned.environment["NCCL_P2P_DISABLE"] == "1"
    assert without.launch.run_folder < toggled.launch.run_folder
