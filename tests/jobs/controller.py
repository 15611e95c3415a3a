"""A controller as a process of its own, for tests that interrupt, kill or measure it.

Usage: controller.py RUN_FOLDER RANKS GRACE_S DEADLINE_S COMMAND [ARGUMENTS]...

At its end it writes the peak memory of itself and of its children, in KiB, to RUN_FOLDER/peak.
"""

import os
import resource
import sys
from pathlib import Path

from rankrun.cluster.hosts import Host
from rankrun.jobs.launch import run_launch
from rankrun.jobs.plan import Limits, PlanRequest, ResolvedTarget, build_plan


def main() -> int:
    run_folder, ranks, grace_s, deadline_s, *command = sys.argv[1:]
    host = Host(name="here", address="127.0.0.1", slots=int(ranks), interface="lo")
    plan = build_plan(
        PlanRequest(
            run_id=Path(run_folder).name,
            argv=tuple(command),
            target=ResolvedTarget(text=f"local:{ranks}", launcher="local", hosts=(host,)),
            run_folder=Path(run_folder),
            workdir=Path.cwd(),
            environment=os.environ,
            limits=Limits(deadline_s=float(deadline_s), grace_s=float(grace_s)),
        )
    )
    exit_code = run_launch(plan).exit_code
    status = Path("/proc/self/status").read_text()
    own_kib = int(status.split("VmHWM:")[1].split()[0])
    children_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    Path(run_folder, "peak").write_text(f"{own_kib} {children_kib}")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
