"""Real sshd processes on loopback addresses, each a host with its own name, key and config."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SSHD = "/usr/sbin/sshd"
READY_S = 10.0


def why_not() -> str | None:
    """What is missing for a real sshd here; None: nothing."""
    if os.geteuid() != 0:
        return "a real sshd is started as root"
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        return "no sshd and ssh here: install openssh-server and openssh-client"
    return None


needs_sshd = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One running sshd; `process` is the recorded one that is ended."""

    name: str
    address: str
    port: int
    host_key: Path
    process: subprocess.Popen[bytes]

    @property
    def known_hosts_line(self) -> str:
        """As known_hosts has it for a port of its own."""
        kind, key, *_ = self.host_key.with_suffix(".pub").read_text().split()
        return f"[{self.address}]:{self.port} {kind} {key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Some servers, and the client's side: a key, known hosts, an ssh config."""

    folder: Path
    servers: Mapping[str, Server]

    @property
    def config(self) -> Path:
        """Stands in for ~/.ssh/config."""
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """The user's."""
        return self.folder / "known_hosts"

    @property
    def key(self) -> Path:
        """The user's."""
        return self.folder / "id_ed25519"


def make_key(path: Path, *, passphrase: str = "") -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
    )
    return path


def free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_site(folder: Path, names: list[str], *, options: str = "") -> Iterator[Site]:
    """Servers that one key may log in to as root; `options` are lines of sshd_config."""
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    site = Site(folder=folder, servers={})
    make_key(site.key)
    servers: dict[str, Server] = {}
    with ExitStack() as stack:
        for number, name in enumerate(names, start=2):
            server = start(site, name, f"127.0.0.{number}", options)
            stack.callback(end, server)
            servers[name] = server
        site.config.write_text("".join(host_block(site, each) for each in servers.values()))
        site.known_hosts.write_text(
            "".join(f"{each.known_hosts_line}\n" for each in servers.values())
        )
        yield Site(folder=folder, servers=servers)


def host_block(site: Site, server: Server) -> str:
    return (
        f"Host {server.name}\n  HostName {server.address}\n  Port {server.port}\n  User root\n"
        f"  IdentityFile {site.key}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {site.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n"
    )


def start(site: Site, name: str, address: str, options: str) -> Server:
    host_key = make_key(site.folder / f"{name}_host_key")
    authorized = site.folder / "authorized_keys"
    shutil.copy(site.key.with_suffix(".pub"), authorized)
    port = free_port(address)
    config = site.folder / f"{name}.sshd_config"
    config.write_text(
        f"ListenAddress {address}:{port}\nHostKey {host_key}\nUsePAM no\nPidFile none\n"
        f"AuthorizedKeysFile {authorized}\nStrictModes no\nPasswordAuthentication no\n"
        f"KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n{options}"
    )
    log = (site.folder / f"{name}.log").open("wb")
    with log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log)
    server = Server(name=name, address=address, port=port, host_key=host_key, process=process)
    await_port(server)
    return server


def await_port(server: Server) -> None:
    deadline_tries = int(READY_S / 0.05)
    for _ in range(deadline_tries):
        with suppress(OSError), socket.create_connection((server.address, server.port), 1):
            return
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(0.05)
            break
    raise AssertionError(f"sshd {server.name} does not answer")


def end(server: Server) -> None:
    with suppress(ProcessLookupError):
        server.process.kill()
    server.process.wait()
