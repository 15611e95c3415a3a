"""A machine that ranks run on: what a user says of it, and what is known once it was asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .compat import StrEnum


class SshClient(StrEnum):
    """Who speaks SSH: the library, or the `ssh` program for sites whose login needs it (MFA)."""

    PARAMIKO = "paramiko"
    OPENSSH = "openssh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to reach a host over SSH, where it differs from what the ssh config says.

    None: as the ssh config has it. `config` stands in for ~/.ssh/config (`ssh -F`).
    """

    user: str | None = None
    port: int | None = None
    key: Path | None = None
    jump: str | None = None
    config: Path | None = None
    client: SshClient = SshClient.PARAMIKO


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """What a target or an inventory says of a host; None: the host itself will be asked.

    `setup` are shell lines that the host's login shell runs before anything of ours (modules,
    conda); `environment` is for this host's ranks.
    """

    name: str
    slots: int | None = None
    address: str | None = None
    interface: str | None = None
    login: Login = Login()
    python: str | None = None
    workdir: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    setup: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine and how many ranks it takes.

    `address` is what the other hosts dial; for a run on one machine it is the loopback,
    which works whatever the machine's name resolves to. `interface` carries the
    collectives (None: left to the backend). `environment` is for its ranks alone, `workdir`
    is where they start (None: where the run says), `python` is its interpreter.
    """

    name: str
    address: str
    slots: int
    interface: str | None = None
    python: str | None = None
    workdir: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
