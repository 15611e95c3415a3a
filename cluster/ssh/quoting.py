"""How a program is started through whatever login shell an account has.

sshd runs `$SHELL -c COMMAND`, and SSH knows no argument lists. Shells differ in what they do
inside single quotes: csh still sees `!` and ends the quote at a newline, fish has escapes there,
and some change bytes that are not UTF-8. So the command is the same few plain characters for
every program and host, and what is to run goes in as the first line of its standard input. That
also keeps it out of `ps`.
"""

import shlex
from collections.abc import Sequence

# `read` takes one byte at a time, so what follows on the input is left for the program.
# No `!`, backslash or newline: bash, dash, zsh, ksh, tcsh and fish all read this alike.
LOGIN_COMMAND = """exec /bin/sh -c 'read -r s; eval "$(printf %b "$s")"'"""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@")


def shell_command(argv: Sequence[str]) -> str:
    """An argument list as a command of POSIX sh.

    >>> shell_command(["echo", "a b", "$HOME"])
    "echo 'a b' '$HOME'"
    """
    return shlex.join(argv)


def first_line(command: str, marker: str) -> bytes:
    r"""What LOGIN_COMMAND reads: print the marker on a line of its own, then run `command`.

    Octal escapes as printf's %b has them (POSIX: `\0` and up to three digits); whatever the
    locale, each byte arrives as it is.

    >>> first_line("exit 3", "ready")
    b'echo\\0040ready\\0012exit\\00403\n'
    """
    script = b"echo " + marker.encode("ascii") + b"\n" + command.encode(errors="surrogateescape")
    if b"\0" in script:
        raise ValueError("a shell command cannot hold a NUL byte")
    plain = (chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in script)
    return "".join(plain).encode("ascii") + b"\n"
