"""Reading what `ssh -G` prints, and expanding the tokens it leaves in.

Sources: ssh(1) -G, ssh_config(5) TOKENS and ENVIRONMENT VARIABLES.
"""

import hashlib
import os
import pwd
import re
import socket
from collections.abc import Mapping
from pathlib import Path

# Between two paths of one line; ssh prints them without quotes, so a path may hold spaces.
_NEXT_PATH = re.compile(r" (?=[/~%$])")
_TOKEN = re.compile(r"%(.)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.DOTALL)


def parse_options(text: str) -> dict[str, list[str]]:
    r"""Option name to its values, in order; `none` stays as it is.

    >>> parse_options("user ann\nidentityfile ~/.ssh/a\nidentityfile ~/.ssh/my key\n")
    {'user': ['ann'], 'identityfile': ['~/.ssh/a', '~/.ssh/my key']}
    """
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name:
            options.setdefault(name.lower(), []).append(value)
    return options


def split_paths(text: str) -> list[str]:
    """The paths of one line.

    >>> split_paths("/home/ann/known hosts /home/ann/.ssh/known_hosts2 ~/more")
    ['/home/ann/known hosts', '/home/ann/.ssh/known_hosts2', '~/more']
    """
    return _NEXT_PATH.split(text) if text else []


def expand(text: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Percent tokens and ${NAME} filled in; what is unknown stays as it is.

    >>> expand("nc %h %p %%x ${A}", {"h": "node1", "p": "22"}, {"A": "b"})
    'nc node1 22 %x b'
    """

    def value(match: re.Match[str]) -> str:
        letter, name = match.groups()
        if letter == "%":
            return "%"
        found = tokens.get(letter) if letter else environment.get(name)
        return match.group() if found is None else found

    return _TOKEN.sub(value, text)


def expand_path(text: str, tokens: Mapping[str, str], environment: Mapping[str, str]) -> Path:
    """A path as ssh reads it: `~` is the home of the password database, not $HOME."""
    expanded = expand(text, tokens, environment)
    if expanded == "~" or expanded.startswith("~/"):
        expanded = home() + expanded[1:]
    return Path(expanded).expanduser() if expanded.startswith("~") else Path(expanded)


def home() -> str:
    """The home folder that ssh uses."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.path.expanduser("~")  # noqa: PTH111  # does not raise where there is none


def local_user() -> str:
    """Our name here; the number where it has none, as in containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def make_tokens(*, original: str, options: Mapping[str, list[str]]) -> dict[str, str]:
    """The values of ssh_config(5) TOKENS for this host."""

    def first(name: str, default: str) -> str:
        return options.get(name, [default])[0]

    host, port, user = first("hostname", original), first("port", "22"), first("user", local_user())
    this_host = socket.gethostname()
    jump = first("proxyjump", "")
    both = f"{this_host}{host}{port}{user}{jump}"
    return {
        "d": home(),
        "h": host,
        "i": str(os.getuid()),
        "j": jump,
        "k": first("hostkeyalias", original),
        "L": this_host.partition(".")[0],
        "l": this_host,
        "n": original,
        "p": port,
        "r": user,
        "u": local_user(),
        "C": hashlib.sha1(both.encode(), usedforsecurity=False).hexdigest(),
    }
