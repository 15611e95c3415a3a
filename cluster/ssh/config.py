"""How to reach a host: what the user's ssh config says of it, as `ssh` itself reads it.

`ssh -G` is asked because nothing else knows Include, Match, canonical names and the system's
files. Where there is no `ssh` program, the config is read by the library: Host, Match host and
user, HostName, User, Port, IdentityFile, CertificateFile, ProxyJump, ProxyCommand and the host
key options, but no Include.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..compat import StrEnum
from ..errors import ConnectError, UsageError
from ..hosts import Login
from .config_text import expand, expand_path, make_tokens, parse_options, split_paths

CONFIG_VARIABLE = "RANKRUN_SSH_CONFIG"

_ASK_S = 20.0
# What ssh itself refuses in the name of a host and of a user, since a ProxyCommand hands them to
# a shell; and the space. A user may be of a domain: LAB\ann.
_UNSAFE = re.compile(r"[\x00-\x20\x7f'`\"$\\;&<>|(){},]")
_UNSAFE_USER = re.compile(r"[\x00-\x20\x7f'`\"$;&<>|(){}]|\\$")

# Options that change whom we trust or how we connect, and that only the `ssh` program serves.
_SPECIAL = (
    "knownhostscommand",
    "revokedhostkeys",
    "proxyusefdpass",
    "bindaddress",
    "bindinterface",
)


class Strict(StrEnum):
    """StrictHostKeyChecking, without those that mean the same."""

    YES = "yes"
    ACCEPT_NEW = "accept-new"
    NO = "no"


# As `ssh -G` prints them. Nobody is there to answer `ask`, so it refuses as `yes` does.
_STRICT = {
    "true": Strict.YES,
    "yes": Strict.YES,
    "ask": Strict.YES,
    "accept-new": Strict.ACCEPT_NEW,
    "false": Strict.NO,
    "no": Strict.NO,
    "off": Strict.NO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """All that is needed to connect to a host and to know that it is the right one.

    host: as the user wrote it. address: HostName. proxy_jump: the hops as written, the last
    one being next to the host. identity_agent: the agent's socket; None: no agent.
    connect_timeout_s: None: ours. special: options that only the `ssh` program serves, which
    this host has set.
    """

    host: str
    address: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    certificate_files: tuple[Path, ...] = ()
    identity_agent: Path | None = None
    proxy_jump: str | None = None
    proxy_command: str | None = None
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    strict: Strict = Strict.YES
    trust_localhost: bool = False
    connect_timeout_s: float | None = None
    family: str = "any"
    special: tuple[str, ...] = ()


def resolve_ssh(
    name: str, login: Login, *, environment: Mapping[str, str] = os.environ
) -> SshSettings:
    """What the ssh config says of a host, under what `login` says.

    Raises:
        UsageError: for a name that can be no host.
        ConnectError: if ssh does not understand its config.
    """
    check_name(name)
    try:
        text = _ask_ssh(name, login, environment)
    except FileNotFoundError:
        from .config_fallback import read_without_ssh  # noqa: PLC0415  # needs paramiko

        options = read_without_ssh(name, login, config_file(login, environment))
    else:
        options = parse_options(text)
    return make_settings(name, options, environment)


def check_name(name: str, *, what: str = "host") -> None:
    """Refuse what could be taken for an option, or do harm in a ProxyCommand.

    Raises:
        UsageError: naming what is wrong.
    """
    found = (_UNSAFE_USER if what == "user" else _UNSAFE).search(name)
    if not name:
        raise UsageError(f"a {what} without a name")
    if name.startswith("-"):
        raise UsageError(f"{what} {name!r}: a name cannot begin with '-'")
    if found:
        raise UsageError(f"{what} {name!r}: a name cannot have {found.group()!r} in it")


def config_file(login: Login, environment: Mapping[str, str]) -> Path | None:
    """The config file that stands in for the user's own, if any."""
    if login.config is not None:
        return login.config.expanduser()
    named = environment.get(CONFIG_VARIABLE)
    return Path(named) if named else None


def ssh_arguments(login: Login, environment: Mapping[str, str]) -> list[str]:
    """What `login` says, as options of the `ssh` program."""
    arguments = []
    config = config_file(login, environment)
    if config is not None:
        arguments += ["-F", str(config)]
    if login.user is not None:
        arguments += ["-l", login.user]
    if login.port is not None:
        arguments += ["-p", str(login.port)]
    if login.key is not None:
        arguments += ["-i", str(login.key.expanduser())]
    if login.jump is not None:
        arguments += ["-J", login.jump]
    return arguments


def _ask_ssh(name: str, login: Login, environment: Mapping[str, str]) -> str:
    command = ["ssh", "-G", "-T", *ssh_arguments(login, environment), "--", name]
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ASK_S,
            env=dict(environment),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConnectError(
            f"{name}: `ssh -G` gave no answer within {_ASK_S:g} s; "
            "does the ssh config have a `Match exec` or a name look-up that hangs?"
        ) from None
    if answer.returncode != 0:
        said = answer.stderr.decode(errors="backslashreplace").strip().splitlines()
        raise ConnectError(
            f"{name}: ssh cannot read its config: {'; '.join(said) or 'no reason given'}; "
            f"see for yourself with: ssh -G {name}"
        )
    return answer.stdout.decode(errors="surrogateescape")


def make_settings(
    name: str, options: Mapping[str, list[str]], environment: Mapping[str, str]
) -> SshSettings:
    """The settings of `ssh -G`'s options.

    Raises:
        UsageError: for an address or a user that could do harm in a ProxyCommand.
    """
    tokens = make_tokens(original=name, options=options)
    check_name(tokens["h"])
    check_name(tokens["r"], what="user")

    def text(option: str) -> str | None:
        value = options.get(option, [""])[0]
        return value if value and value.lower() != "none" else None

    def paths(values: Sequence[str]) -> tuple[Path, ...]:
        wanted = (value for value in values if value.lower() != "none")
        return tuple(expand_path(value, tokens, environment) for value in wanted)

    timeout = text("connecttimeout")
    alias = text("hostkeyalias")
    return SshSettings(
        host=name,
        address=tokens["h"],
        port=int(tokens["p"]),
        user=tokens["r"],
        identity_files=paths(options.get("identityfile", [])),
        identities_only=text("identitiesonly") == "yes",
        certificate_files=paths(options.get("certificatefile", [])),
        identity_agent=_agent(options.get("identityagent", [""])[0], tokens, environment),
        proxy_jump=text("proxyjump"),
        proxy_command=text("proxycommand"),
        user_known_hosts=paths(split_paths(options.get("userknownhostsfile", [""])[0])),
        global_known_hosts=paths(split_paths(options.get("globalknownhostsfile", [""])[0])),
        host_key_alias=expand(alias, tokens, environment) if alias else None,
        strict=_STRICT.get(options.get("stricthostkeychecking", ["ask"])[0], Strict.YES),
        trust_localhost=text("nohostauthenticationforlocalhost") == "yes",
        connect_timeout_s=float(timeout) if timeout and timeout.isdigit() else None,
        family=text("addressfamily") or "any",
        special=tuple(name for name in _SPECIAL if text(name) not in (None, "no")),
    )


def _agent(value: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> Path | None:
    """IdentityAgent: a path, `none`, SSH_AUTH_SOCK, or the name of a variable after `$`."""
    if value.lower() == "none":
        return None
    if value in {"", "SSH_AUTH_SOCK"}:
        value = "$SSH_AUTH_SOCK"
    if value.startswith("$") and not value.startswith("${"):
        named = environment.get(value[1:])
        return Path(named) if named else None
    return expand_path(value, tokens, environment)
