"""The suite's peer in `scripts/bench`: a bare loop of the same calls, in the same process.

    python -m rankrun.collectives.on_rank.bare_loop OUT.json SIZE...

Blocks of calls timed by the suite's own loop stand next to blocks of a bare loop with one timer
around it, each first every other time. Rank 0 writes {size: [suite_us, bare_us, ratio]}: the mean
time of a call in a block, the lower quartile over the blocks, and the ratio of the two. What else
the machine does can only make a block slower, so the faster blocks are those that compare the two
loops and not the noise.
"""

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed

from ...jobs.agent.channel import RankChannel
from .timing import Stopwatch

BLOCKS = 800
BLOCK_S = 0.005


def main() -> None:
    """Run all sizes."""
    out, *sizes = sys.argv[1:]
    distributed.init_process_group("gloo")
    compared = {size: _compare(int(size)) for size in sizes}
    if distributed.get_rank() == 0:
        Path(out).write_text(json.dumps(compared))
    distributed.barrier()
    distributed.destroy_process_group()


def _compare(size_bytes: int) -> tuple[float, float, float]:
    buffer = torch.zeros(max(size_bytes // 4, 1))
    call = functools.partial(distributed.all_reduce, buffer)
    calls = _calls_per_block(call)
    stopwatch = Stopwatch(counter=RankChannel())

    def suite_us() -> float:
        return sum(stopwatch.loop(call, calls, expected_ns=0)) / calls / 1e3

    loops: dict[str, Callable[[], float]] = {
        "suite": suite_us,
        "bare": lambda: _bare_us(call, calls),
    }
    blocks = []
    for number in range(BLOCKS):
        taken: dict[str, float] = {}
        for name in ("suite", "bare") if number % 2 else ("bare", "suite"):
            distributed.barrier()
            taken[name] = loops[name]()
        blocks.append((taken["suite"], taken["bare"]))
    ours, bare = (statistics.quantiles(column)[0] for column in zip(*blocks, strict=True))
    return ours, bare, ours / bare


def _calls_per_block(call: Callable[[], object]) -> int:
    """Alike on all ranks: rank 0 decides."""
    wanted = torch.tensor([BLOCK_S * 1e6 / _bare_us(call, 5)])
    distributed.broadcast(wanted, src=0)
    return min(max(int(wanted), 3), 2000)


def _bare_us(call: Callable[[], object], calls: int) -> float:
    started = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - started) / calls / 1e3


if __name__ == "__main__":
    main()
