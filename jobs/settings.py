"""`--env`, `--nccl` and `--toggle`: variables that a user sets for a run."""

import re
from collections.abc import Iterable, Mapping

from ..cluster.errors import UsageError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Other prefixes that belong to the communication libraries, so that NCCL_ is not put before them.
_LIBRARY_PREFIXES = ("NCCL_", "GLOO_", "TORCH_", "UCX_", "FI_", "TP_", "CUDA_", "RCCL_")


def parse_settings(texts: Iterable[str], *, option: str = "--env") -> dict[str, str]:
    """Variables of KEY=VALUE texts, later ones winning. Values may hold anything but NUL.

    >>> parse_settings(["A=1", "B=x,y=z"])
    {'A': '1', 'B': 'x,y=z'}

    Raises:
        UsageError: for a text without "=" or a name that is no variable name.
    """
    settings: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"{option} {text!r}: write KEY=VALUE, KEY of letters, digits and _")
        if "\0" in value:
            raise UsageError(f"{option} {name}: the value holds a NUL byte, which no variable can")
        settings[name] = value
    return settings


def forward_settings(texts: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """KEY alone becomes KEY=VALUE with the value that it has here.

    So a secret reaches the ranks without being on any command line.

    >>> forward_settings(["A=1", "TOKEN"], {"TOKEN": "t"})
    ['A=1', 'TOKEN=t']

    Raises:
        UsageError: for a KEY that is not set here.
    """
    return [_forwarded(text, environment) for text in texts]


def _forwarded(text: str, environment: Mapping[str, str]) -> str:
    if "=" in text or not _NAME.fullmatch(text):
        return text
    if text not in environment:
        raise UsageError(f"--env {text}: not set here; export it first, or write {text}=VALUE")
    return f"{text}={environment[text]}"


def parse_nccl_settings(texts: Iterable[str]) -> dict[str, str]:
    """The same for --nccl, where NCCL_ may be left out.

    >>> parse_nccl_settings(["DEBUG=INFO", "NCCL_IB_HCA=mlx5_0,mlx5_1", "GLOO_SOCKET_IFNAME=lo"])
    {'NCCL_DEBUG': 'INFO', 'NCCL_IB_HCA': 'mlx5_0,mlx5_1', 'GLOO_SOCKET_IFNAME': 'lo'}
    """
    return {
        name if name.startswith(_LIBRARY_PREFIXES) else f"NCCL_{name}": value
        for name, value in parse_settings(texts, option="--nccl").items()
    }


def parse_toggle(text: str) -> tuple[str, str]:
    """The variable and value of `--toggle VAR[=VALUE]`; the value is 1 where none is given.

    >>> parse_toggle("NCCL_P2P_DISABLE"), parse_toggle("NCCL_ALGO=Ring")
    (('NCCL_P2P_DISABLE', '1'), ('NCCL_ALGO', 'Ring'))
    """
    settings = parse_settings([text if "=" in text else f"{text}=1"], option="--toggle")
    return next(iter(settings.items()))
