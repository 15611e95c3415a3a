"""A rank of the suite: told what to do by RANKRUN_SUITE_SPEC, who it is by torchrun's variables.

Exit codes: 0 when all steps are done, also with wrong results, which are records; 1 when the
run broke off, with one line that says why last on standard error.
"""

import os
import platform
import sys
import traceback
import warnings

from ...cluster.errors import RankrunError
from ...jobs.agent.channel import RankChannel
from ..records import Joined, Left, Record, to_line
from ..spec import SPEC_VARIABLE, Mode, SuiteSpec


def main() -> int:
    """Join, do all steps, leave."""
    # torch without numpy warns at its import; nothing here uses numpy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    channel = RankChannel()
    spec = SuiteSpec.from_json(os.environ[SPEC_VARIABLE])
    try:
        _run(spec, channel)
    except Exception as error:  # noqa: BLE001  # the process ends here
        return _broken_off(error)
    return 0


def _run(spec: SuiteSpec, channel: RankChannel) -> None:
    import torch  # noqa: PLC0415  # after the filter above

    from ..steps import enumerate_steps  # noqa: PLC0415
    from .backends import Session  # noqa: PLC0415
    from .show import Show  # noqa: PLC0415
    from .sweep import Sweep  # noqa: PLC0415

    def send(record: Record) -> None:
        channel.write_record(to_line(record))

    session = Session(spec)
    steps = enumerate_steps(spec, session.topology)
    is_cuda = session.device.type == "cuda"
    send(
        Joined(
            rank=session.rank,
            world_size=session.world_size,
            num_steps=len(steps),
            backend=str(session.choice.backend),
            device=str(session.device),
            device_name=torch.cuda.get_device_name() if is_cuda else platform.machine(),
            torch=torch.__version__,
            nccl=_nccl_version() if is_cuda else None,
            python=platform.python_version(),
        )
    )
    runner = Show if spec.mode is Mode.SHOW else Sweep
    runner(session, spec, channel, send).run(steps)
    session.leave()
    send(Left(rank=session.rank))


def _nccl_version() -> str:
    import torch.cuda.nccl  # noqa: PLC0415

    version = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    return ".".join(map(str, version))


def _broken_off(error: Exception) -> int:
    """Say why, last of all; then end at once, since leaving a broken group could hang."""
    rank = os.environ.get("RANK", "?")
    if not isinstance(error, RankrunError):
        traceback.print_exception(error)
    first_line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    sys.stderr.write(f"rankrun suite: rank {rank}: {first_line}\n")
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
