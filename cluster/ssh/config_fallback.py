"""The ssh config where there is no `ssh` program to ask: what paramiko reads of it."""

from __future__ import annotations

import re
from pathlib import Path

import paramiko
from paramiko.ssh_exception import ConfigParseError

from ..errors import ConnectError
from ..hosts import Login
from .config_text import home, local_user

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")

_INCLUDE = re.compile(r"^\s*include\b", re.IGNORECASE | re.MULTILINE)


def read_without_ssh(name: str, login: Login, config: Path | None) -> dict[str, list[str]]:
    """The options of a host, in the form of `ssh -G`.

    Raises:
        ConnectError: if the config cannot be read, or needs the `ssh` program.
    """
    user, _, host = name.rpartition("@")
    found = paramiko.SSHConfig()
    for file in (config or Path(home()) / ".ssh" / "config", SYSTEM_CONFIG):
        if file == config or file.is_file():
            _add(found, name, file)
    try:
        options = {option: _values(value) for option, value in found.lookup(host).items()}
    except (ConfigParseError, paramiko.SSHException) as error:
        raise ConnectError(f"{name}: the ssh config cannot be read: {error}") from error
    return _defaults() | options | _said(user, login, options)


def _values(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _add(found: paramiko.SSHConfig, name: str, file: Path) -> None:
    try:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        if file != SYSTEM_CONFIG and _INCLUDE.search(text):
            raise ConnectError(
                f"{name}: {file} has Include, which only the ssh program reads, and there is none "
                "here: install openssh-client, or write the hosts into the cluster file"
            )
        found.parse(iter(text.splitlines()))
    except (OSError, ConfigParseError) as error:
        raise ConnectError(f"{name}: {file} cannot be read: {error}") from error


def _defaults() -> dict[str, list[str]]:
    folder = f"{home()}/.ssh"
    return {
        "identityfile": [f"{folder}/id_{kind}" for kind in ("rsa", "ecdsa", "ed25519")],
        "user": [local_user()],
        "userknownhostsfile": [f"{folder}/known_hosts {folder}/known_hosts2"],
        "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"],
    }


def _said(user: str, login: Login, options: dict[str, list[str]]) -> dict[str, list[str]]:
    """What the name and the login say, before what the config does."""
    said: dict[str, list[str]] = {}
    if login.user or user:
        said["user"] = [login.user or user]
    if login.port is not None:
        said["port"] = [str(login.port)]
    if login.key is not None:
        said["identityfile"] = [str(login.key), *options.get("identityfile", [])]
    if login.jump is not None:
        said["proxyjump"] = [login.jump]
        said["proxycommand"] = ["none"]
    return said
