"""`scripts/bench`: rankrun against its peers, in one run, as ratios of medians.

Each benchmark prints one line: what, ours, the peer's, the ratio, the bound, and whether it holds.
The exit code is 1 when one does not. Noisy machines need several rounds: --rounds.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

RANKRUN = [sys.executable, "-m", "rankrun.scripts.main"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
TIMEOUT_S = 900.0
# Compiled modules are kept, as they are for a user.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One comparison. `ratio` is ours over the peer's, or ours over the bound's unit."""

    name: str
    ours: str
    peer: str
    ratio: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the bound holds."""
        return self.ratio <= self.bound

    def line(self) -> str:
        """As printed."""
        verdict = "ok" if self.holds else "MISSED"
        return (
            f"{self.name:<52} {self.ours:>12} {self.peer:>16} {self.ratio:>8.3f} "
            f"{self.bound:>7.2f}  {verdict}"
        )


def timed_s(argv: Sequence[str], *, prefix: Sequence[str] = ()) -> float:
    """Wall seconds of a program that must succeed."""
    with tempfile.TemporaryDirectory() as runs:
        started = time.perf_counter()
        done = subprocess.run(
            [*prefix, *argv],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "RANKRUN_RUNS": runs},
            timeout=TIMEOUT_S,
            check=False,
        )
        elapsed_s = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{argv} ended with {done.returncode}:\n{done.stderr.decode()[-2000:]}")
    return elapsed_s


def compared_s(
    ours: Callable[[], float], peer: Callable[[], float], rounds: int
) -> tuple[float, float, float]:
    """Seconds of both and the ratio of neighbours, medians over rounds taken in turns.

    The ratio is that of two runs next to each other, so that a machine that is slower for a
    while does not count as one of the two being slower.
    """
    samples = [(ours(), peer()) for _ in range(rounds)]
    ratio = statistics.median(mine / other for mine, other in samples)
    return *(statistics.median(column) for column in zip(*samples, strict=True)), ratio


def bench_launch(rounds: int) -> Iterator[Result]:
    """`launch -t local:4 -- python -c pass` against torchrun with the same program."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "empty.py"
        script.write_text("pass\n")
        ours = [*RANKRUN, "launch", "-t", "local:4", "--", sys.executable, str(script)]
        peer = [*TORCHRUN, "--nproc-per-node", "4", str(script)]
        ours_s, peer_s, ratio = compared_s(lambda: timed_s(ours), lambda: timed_s(peer), rounds)
    yield Result(
        name="launch of 4 empty ranks, against torchrun",
        ours=f"{ours_s:.3f} s",
        peer=f"{peer_s:.3f} s",
        ratio=ratio,
        bound=1.0,
    )


def bench_unresolvable_host(rounds: int) -> Iterator[Result]:
    """A host whose own name does not resolve, against the usual host: the launch, the rendezvous.

    The import of torch, which takes seconds and has no name to resolve, is left out.
    """
    prefix = ["unshare", "--uts", "sh", "-c", 'hostname rankrun-nowhere && exec "$@"', "sh"]
    if os.geteuid() != 0:
        sys.stderr.write("bench: unresolvable host left out: unshare --uts needs root\n")
        return
    launch = [*RANKRUN, "launch", "-t", "local:4", "--", sys.executable, "-c", "pass"]
    samples: dict[str, tuple[Callable[[Sequence[str]], float], int]] = {
        "launch of 4 empty ranks": (lambda where: timed_s(launch, prefix=where), 4 * rounds),
        "4 ranks meet in gloo": (rendezvous_s, rounds),
    }
    for name, (sample, num_samples) in samples.items():
        there_s, here_s, ratio = compared_s(
            partial(sample, prefix), partial(sample, ()), num_samples
        )
        yield Result(
            name=f"{name}, host name unresolvable",
            ours=f"{there_s:.3f} s",
            peer=f"{here_s:.3f} s",
            ratio=ratio,
            bound=1.10,
        )


def rendezvous_s(prefix: Sequence[str]) -> float:
    """Seconds from init_process_group to the end of a first barrier: the median of a few."""
    with tempfile.TemporaryDirectory() as runs:
        timed_s([*RANKRUN, "launch", "--runs", runs, "-t", "local:4", "--",
                 sys.executable, "-c", RENDEZVOUS], prefix=prefix)  # fmt: skip
        (log,) = Path(runs).rglob("0.stdout.log")
        return statistics.median(map(float, log.read_text().split()))


RENDEZVOUS = """
import time, torch.distributed as d
for _ in range(9):
    began = time.perf_counter()
    d.init_process_group("gloo")
    d.barrier()
    print(time.perf_counter() - began)
    d.destroy_process_group()
"""


def bench_import(rounds: int) -> Iterator[Result]:
    """Importing the command line with its largest command, in seconds above bare Python."""
    program = "import rankrun.scripts.main, rankrun.scripts.suite_command"
    import_s, bare_s, _ = compared_s(
        lambda: timed_s([sys.executable, "-c", program]),
        lambda: timed_s([sys.executable, "-c", "pass"]),
        max(rounds, 7),
    )
    yield Result(
        name="import of the command line above bare Python, s",
        ours=f"{import_s:.3f} s",
        peer=f"{bare_s:.3f} s",
        ratio=import_s - bare_s,
        bound=0.15,
    )


FLOOD = "import os\nb = b'x' * 99 + b'\\n'\nfor _ in range(100_000): os.write(1, b * 25)\n"


def bench_memory(rounds: int) -> Iterator[Result]:  # noqa: ARG001  # memory does not vary
    """Peak memory of the controller and agent while 4 ranks print 1 GB in all."""
    with tempfile.TemporaryDirectory() as runs:
        argv = [*RANKRUN, "launch", "-q", "--runs", runs, "-t", "local:4", "--", sys.executable]
        program = f"{MEASURE_CHILDREN}\nmeasure({[*argv, '-c', FLOOD]!r})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        written = sum(path.stat().st_size for path in Path(runs).rglob("*.stdout.log"))
    peak_mib = int(done.stdout.split()[-1]) / 1024
    yield Result(
        name=f"peak memory while 4 ranks print {written / 1e9:.2f} GB, MiB / 150",
        ours=f"{peak_mib:.0f} MiB",
        peer="150 MiB",
        ratio=peak_mib / 150,
        bound=1.0,
    )


# ru_maxrss of children is the largest single process, in KiB (getrusage(2)).
MEASURE_CHILDREN = """
import resource, subprocess
def measure(argv):
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def bench_overhead(rounds: int) -> Iterator[Result]:
    """What the suite reports for all_reduce against a bare loop of the same calls, same ranks."""
    sizes = {8: 1.10, 1 << 20: 1.02, 4 << 20: 1.02}
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    shown: dict[int, tuple[float, float]] = {}
    for _ in range(rounds):
        for size, (ours_us, bare_us, ratio) in _overhead_sample(list(sizes)).items():
            ratios[size].append(ratio)
            shown[size] = (ours_us, bare_us)
    for size, bound in sizes.items():
        yield Result(
            name=f"all_reduce {size} B: reported, against a bare loop",
            ours=f"{shown[size][0]:.1f} us",
            peer=f"{shown[size][1]:.1f} us",
            ratio=statistics.median(ratios[size]),
            bound=bound,
        )


def _overhead_sample(sizes: list[int]) -> dict[int, tuple[float, float, float]]:
    """Per size: the suite's and a bare loop's microseconds, and their ratio, on the same ranks."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bare.json"
        subprocess.run(
            [*RANKRUN, "launch", "-q", "--runs", folder, "-t", "local:2", "--",
             sys.executable, "-m", "rankrun.collectives.on_rank.bare_loop", str(out),
             *map(str, sizes)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=True,
        )  # fmt: skip
        compared = json.loads(out.read_text())
    return {int(size): (ours, bare, ratio) for size, (ours, bare, ratio) in compared.items()}


BENCHMARKS: dict[str, Callable[[int], Iterator[Result]]] = {
    "import": bench_import,
    "launch": bench_launch,
    "host": bench_unresolvable_host,
    "memory": bench_memory,
    "overhead": bench_overhead,
}


def main() -> int:
    """Run the chosen benchmarks."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHMARKS, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'benchmark':<52} {'ours':>12} {'peer':>16} {'ratio':>8} {'bound':>7}")  # noqa: T201
    missed = 0
    for name in arguments.names or BENCHMARKS:
        for result in BENCHMARKS[name](arguments.rounds):
            print(result.line(), flush=True)  # noqa: T201
            missed += not result.holds
    return 1 if missed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
