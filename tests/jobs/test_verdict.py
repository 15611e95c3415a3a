import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.diagnosis.findings import Confidence, Finding, Severity, Subject, SubjectKind
from rankrun.jobs.events import HostEvent
from rankrun.jobs.observers import StopRequest
from rankrun.jobs.outcomes import End, RankOutcome
from rankrun.jobs.verdict import RunFacts, first_failure, judge, render_verdict

CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:12"


def outcome(rank: int, end: End = End.COMPLETED, **fields: Any) -> RankOutcome:
    code = {End.COMPLETED: 0, End.FAILED: 1, End.KILLED: -9, End.STOPPED: -15}.get(end)
    defaults = {"code": code, "pid": 100 + rank, "started_s": 1.0, "ended_s": 5.0 + rank}
    return RankOutcome(rank=rank, host=f"node{rank}", end=end, **{**defaults, **fields})


def facts(*outcomes: RankOutcome, **fields: Any) -> RunFacts:
    return RunFacts(outcomes=outcomes, **fields)


def test_all_is_well() -> None:
    result = judge(facts(outcome(0), outcome(1)))
    assert result.exit_code == 0
    assert render_verdict(result) == "all 2 ranks completed\n"


def test_of_hundreds_of_leftovers_some_are_named() -> None:
    notes = [
        HostEvent(time_s=1.0, host="a", what="leftover-ended", detail=f"pid {n} (sh)")
        for n in range(300)
    ]
    (finding,) = judge(facts(outcome(0), notes=tuple(notes))).findings
    assert finding.message.endswith(
        ": " + ", ".join(f"pid {n} (sh)" for n in range(8)) + " and 292 more"
    )
    (finding,) = judge(facts(outcome(0), notes=tuple(notes[:8]))).findings
    assert finding.message.endswith("pid 7 (sh)")


def test_the_earliest_is_the_culprit() -> None:
    late = outcome(0, End.FAILED, ended_s=9.0, code=2)
    early = outcome(1, End.FAILED, ended_s=8.0, code=7)
    result = judge(facts(late, early, outcome(2, End.STOPPED)))
    assert result.first_failure == early
    assert result.exit_code == 7


def test_a_victim_leaves_earlier_and_is_not_blamed() -> None:
    victim = outcome(0, End.FAILED, ended_s=8.000, last_words=(CLOSED,))
    culprit = outcome(1, End.FAILED, ended_s=8.004, last_words=("ValueError: nan",), code=3)
    result = judge(facts(victim, culprit))
    assert result.first_failure == culprit
    assert result.exit_code == 3
    assert "Connection closed by peer" in result.findings[0].consequences[0]


def test_a_victim_is_not_blamed_for_a_killed_peer() -> None:
    victim = outcome(0, End.FAILED, ended_s=8.0, last_words=(CLOSED,))
    killed = outcome(1, End.KILLED, ended_s=8.0)
    assert judge(facts(victim, killed)).exit_code == 137


def test_when_all_are_victims_the_first_is_shown_with_less_confidence() -> None:
    first = outcome(1, End.FAILED, ended_s=7.0, last_words=(CLOSED,))
    second = outcome(0, End.FAILED, ended_s=8.0, last_words=(CLOSED,))
    result = judge(facts(second, first))
    assert result.first_failure == first
    assert result.findings[0].confidence == "likely"


def test_a_later_failure_of_its_own_does_not_excuse_the_first() -> None:
    victim = outcome(0, End.FAILED, ended_s=8.0, last_words=(CLOSED,))
    hours_later = outcome(1, End.FAILED, ended_s=8000.0, last_words=("ValueError",))
    assert first_failure([victim, hours_later]) == victim


outcomes = st.lists(
    st.builds(
        outcome,
        st.integers(min_value=0, max_value=99),
        st.sampled_from(End),
        ended_s=st.one_of(st.none(), st.floats(min_value=0, max_value=10)),
        last_words=st.sampled_from([(), (CLOSED,), ("ValueError: x",)]),
    ),
    min_size=1,
    max_size=8,
)


@given(outcomes)
def test_who_was_stopped_is_never_the_culprit(given_outcomes: list[RankOutcome]) -> None:
    result = judge(facts(*given_outcomes))
    if result.first_failure is None:
        assert not any(o.end in (End.FAILED, End.KILLED) for o in given_outcomes)
    else:
        assert result.first_failure.end in (End.FAILED, End.KILLED)
        assert result.exit_code > 0
    assert render_verdict(result).endswith("\n")


def test_identical_errors_are_folded() -> None:
    same = ("ModuleNotFoundError: No module named 'x'",)
    result = judge(facts(*(outcome(rank, End.FAILED, last_words=same) for rank in range(64))))
    assert result.findings[0].consequences == ("ranks 1-63 ended the same way",)
    assert len(render_verdict(result).splitlines()) <= 5


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (signal.SIGKILL, "dmesg"),
        (signal.SIGBUS, "/dev/shm"),
        (signal.SIGSEGV, "native code"),
        (signal.SIGRTMIN + 5, "whole output"),
    ],
)
def test_signals_have_their_remedy(number: int, hint: str) -> None:
    result = judge(facts(outcome(0, End.KILLED, code=-number)))
    assert result.exit_code == 128 + number
    assert hint in result.findings[0].remedy


@pytest.mark.parametrize(
    ("host", "rank", "named"), [("node0", 0, True), ("node1", 0, False), ("node0", 1, False)]
)
def test_the_oom_killer_is_named_where_it_met_the_rank(host: str, rank: int, named: bool) -> None:
    note = HostEvent(time_s=1, host=host, what="out-of-memory", detail=f"rank {rank} died as ...")
    finding = judge(facts(outcome(0, End.KILLED), notes=(note,))).findings[0]
    assert ("out-of-memory killer was at work" in finding.message) is named
    assert (finding.confidence is Confidence.LIKELY) is named


def test_ranks_that_never_reported() -> None:
    missing = [outcome(rank, End.NEVER_REPORTED, pid=None, ended_s=None) for rank in (1, 2)]
    result = judge(facts(outcome(0), *missing))
    assert result.exit_code == 3
    assert result.findings[0].cause == "rank-never-reported"
    assert "ranks 1-2 on node1, node2" in result.findings[0].message


def test_a_stop_has_its_own_code_and_no_culprit() -> None:
    found = Finding(
        cause="hang",
        severity=Severity.ERROR,
        subject=Subject(kind=SubjectKind.RUN),
        message="rank 1 did not arrive",
        remedy="look",
    )
    stop = StopRequest(reason="hang", exit_code=1, want_stacks=True)
    result = judge(facts(outcome(0, End.STOPPED), outcome(1), stop=stop, observed=(found,)))
    assert result.exit_code == 1
    assert result.first_failure is None
    assert result.findings == (found,)


def test_what_a_tired_person_reads() -> None:
    culprit = outcome(
        2, End.FAILED, code=17, last_words=("Traceback (most recent call last):", "ValueError: nan")
    )
    result = judge(facts(outcome(0, End.STOPPED), outcome(1, End.STOPPED), culprit))
    assert render_verdict(result) == (
        "error: rank 2 on node2 exited with code 17: ValueError: nan\n"
        "    | Traceback (most recent call last):\n"
        "    | ValueError: nan\n"
        "    then ranks 0-1 were stopped\n"
        "    next: its whole output: ranks/2.stderr.log\n"
    )
