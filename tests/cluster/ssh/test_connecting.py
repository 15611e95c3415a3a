"""Connections to real sshd processes, by the library and by the `ssh` program."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rankrun.cluster.errors import ConnectError
from rankrun.cluster.hosts import HostEntry, Login, SshClient
from rankrun.cluster.ssh import Transport, connect_all

from .servers import Site, free_port, host_block, make_key, needs_sshd, running_site

pytestmark = needs_sshd

CLIENTS = list(SshClient)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site"), ["node0", "node1"]) as running:
        yield running


def entry(
    site: Site, name: str = "node0", *, config: Path | None = None, **login: object
) -> HostEntry:
    return HostEntry(name=name, login=Login(config=config or site.config, **login))  # type: ignore[arg-type]  # one of Login's own fields


def attempt(host: HostEntry, *, timeout_s: float = 20.0) -> Transport | ConnectError:
    return connect_all([host], timeout_s=timeout_s)[host.name]


@contextmanager
def connected(host: HostEntry) -> Iterator[Transport]:
    transport = attempt(host)
    assert not isinstance(transport, ConnectError), transport
    try:
        yield transport
    finally:
        transport.close()


def refusal(host: HostEntry, *, timeout_s: float = 20.0) -> str:
    result = attempt(host, timeout_s=timeout_s)
    if not isinstance(result, ConnectError):
        result.close()
        pytest.fail("the connection was made")
    assert "\n" not in str(result)
    assert str(result).startswith(host.name)
    return str(result)


def with_lines(site: Site, tmp_path: Path, lines: str, name: str = "node0") -> Path:
    """A config whose first lines win (ssh_config(5): the first value obtained is used)."""
    config = tmp_path / "config"
    config.write_text(f"Host {name}\n{lines}\n{site.config.read_text()}")
    return config


@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_gets_its_input_and_gives_output_and_code(site: Site, client: SshClient) -> None:
    with connected(entry(site, client=client)) as transport:
        done = transport.run("cat; echo oops >&2; exit 7", stdin=b"\x00\xff bytes\n", timeout_s=20)
    assert (done.exit_code, done.stdout, done.stderr) == (7, b"\x00\xff bytes\n", "oops\n")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_large_output_arrives_whole(site: Site, client: SshClient) -> None:
    with connected(entry(site, client=client)) as transport:
        done = transport.run("head -c 8000000 /dev/zero", timeout_s=60)
    assert (done.exit_code, len(done.stdout), done.truncated) == (0, 8_000_000, False)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_program_that_outstays_its_time_is_let_go(site: Site, client: SshClient) -> None:
    with connected(entry(site, client=client)) as transport:
        done = transport.run("echo begun; exec sleep 600", timeout_s=1.5)
    assert (done.timed_out, done.exit_code, done.stdout) == (True, None, b"begun\n")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_runs_is_not_seen_in_ps(site: Site, client: SshClient) -> None:
    with connected(entry(site, client=client)) as transport:
        done = transport.run("secret=tops''ecret; ps -eo args", timeout_s=20)
    assert done.exit_code == 0
    assert b"tops" not in done.stdout


def test_the_ssh_program_leaves_no_socket_and_no_process(site: Site) -> None:
    before = set(Path("/tmp").glob("rankrun-ssh-*"))
    with connected(entry(site, client=SshClient.OPENSSH)):
        (folder,) = set(Path("/tmp").glob("rankrun-ssh-*")) - before
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(folder) not in listing.stdout


@pytest.mark.parametrize("client", CLIENTS)
def test_a_closed_port_is_one_line(site: Site, tmp_path: Path, client: SshClient) -> None:
    config = with_lines(site, tmp_path, f"  Port {free_port('127.0.0.2')}")
    assert "refused" in refusal(entry(site, config=config, client=client), timeout_s=4).lower()


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unknown_host_key_is_refused(site: Site, tmp_path: Path, client: SshClient) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    config = with_lines(site, tmp_path, f"  UserKnownHostsFile {empty}")
    said = refusal(entry(site, config=config, client=client))
    assert "key" in said.lower()
    assert "node0" in said or "127.0.0.2" in said


def test_a_changed_host_key_names_file_line_and_what_to_do(site: Site, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text().split()[:2]
    server = site.servers["node0"]
    known = tmp_path / "known"
    known.write_text(f"# first\n[{server.address}]:{server.port} {' '.join(other)}\n")
    said = refusal(entry(site, config=with_lines(site, tmp_path, f"  UserKnownHostsFile {known}")))
    assert f"{known}:2" in said
    assert "ssh-keygen -R" in said


@pytest.mark.parametrize("form", ["hashed", "wildcard", "global"])
def test_forms_of_known_hosts(site: Site, tmp_path: Path, form: str) -> None:
    server = site.servers["node0"]
    known = tmp_path / "known"
    line = server.known_hosts_line
    if form == "wildcard":
        line = line.replace("127.0.0.2", "127.0.0.?")
    known.write_text("@cert-authority * not-a-key-at-all\n" + line + "\n")
    if form == "hashed":
        known.write_text(line + "\n")
        subprocess.run(
            ["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True
        )
    lines = f"  UserKnownHostsFile {known}"
    if form == "global":
        lines = f"  UserKnownHostsFile /dev/null\n  GlobalKnownHostsFile {known}"
    with connected(entry(site, config=with_lines(site, tmp_path, lines))) as transport:
        assert transport.run("echo in", timeout_s=20).stdout == b"in\n"


def test_a_revoked_host_key_is_refused(site: Site, tmp_path: Path) -> None:
    server = site.servers["node0"]
    known = tmp_path / "known"
    key = server.known_hosts_line.split(maxsplit=1)[1]
    known.write_text(f"{server.known_hosts_line}\n@revoked * {key}\n")
    said = refusal(entry(site, config=with_lines(site, tmp_path, f"  UserKnownHostsFile {known}")))
    assert "revoked" in said


def test_a_host_certificate_is_proof(site: Site, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "authority")
    host_key = make_key(tmp_path / "signed_host_key")
    subprocess.run(
        [
            "ssh-keygen",
            "-q",
            "-s",
            str(authority),
            "-I",
            "node",
            "-h",
            "-n",
            "127.0.0.2",
            f"{host_key}.pub",
        ],
        check=True,
    )
    certificate = f"HostCertificate {host_key}-cert.pub\nHostKey {host_key}\n"
    inner = tmp_path / "inner"
    inner.mkdir()
    with running_site(inner, ["node0"], options=certificate) as signed:
        public = " ".join(authority.with_suffix(".pub").read_text().split()[:2])
        signed.known_hosts.write_text(f"@cert-authority * {public}\n")
        with connected(entry(signed)) as transport:
            assert transport.run("echo in", timeout_s=20).stdout == b"in\n"


@pytest.mark.parametrize("client", CLIENTS)
def test_a_key_that_the_host_does_not_take(site: Site, tmp_path: Path, client: SshClient) -> None:
    other = make_key(tmp_path / "other")
    config = tmp_path / "config"
    config.write_text(site.config.read_text().replace(str(site.key), str(other)))
    said = refusal(entry(site, config=config, client=client))
    assert "ermission denied" in said or str(other) in said


def test_a_key_with_a_passphrase_is_asked_for_once(site: Site, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(site.key.read_bytes())
    locked.chmod(0o600)
    locked.with_suffix(".pub").write_bytes(site.key.with_suffix(".pub").read_bytes())
    subprocess.run(
        ["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(locked)], check=True
    )
    config = tmp_path / "config"
    config.write_text(site.config.read_text().replace(str(site.key), str(locked)))
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "open sesame"

    hosts = [entry(site, name, config=config) for name in ("node0", "node1")]
    found = connect_all(hosts, timeout_s=20, ask=ask)
    for each in found.values():
        assert not isinstance(each, ConnectError), each
        each.close()
    assert len(asked) == 1
    assert "passphrase" in refusal(entry(site, config=config))


def test_a_key_in_an_agent(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        for _ in range(100):
            added = subprocess.run(
                ["ssh-add", "-q", str(site.key)], check=False, capture_output=True
            )
            if added.returncode == 0:
                break
        config = tmp_path / "config"
        config.write_text(
            site.config.read_text()
            .replace(f"  IdentityFile {site.key}\n", f"  IdentityFile {tmp_path}/none\n")
            .replace("IdentitiesOnly yes", "IdentitiesOnly no")
        )
        with connected(entry(site, config=config)) as transport:
            assert transport.run("echo in", timeout_s=20).stdout == b"in\n"
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(10)


def test_include_jump_host_and_proxy_command(site: Site, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.write_text(site.config.read_text())
    node1 = site.servers["node1"]
    behind = host_block(site, node1).replace("Host node1", "Host {}")
    config = tmp_path / "config"
    config.write_text(
        behind.format("jumped")
        + "  ProxyJump node0\n"
        + behind.format("proxied")
        + f"  ProxyCommand ssh -F {inner} -W %h:%p node0\n"
        + f"Host *\nInclude {inner}\n"
    )
    for name in ("jumped", "proxied", "node0"):
        with connected(entry(site, name, config=config)) as transport:
            done = transport.run("echo $SSH_CONNECTION", timeout_s=20)
            expected = site.servers["node0" if name == "node0" else "node1"].address
            assert done.stdout.split()[2] == expected.encode()


def test_sixty_hosts_through_one_jump_host_with_default_limits(site: Site, tmp_path: Path) -> None:
    names = [f"far{number}" for number in range(60)]
    block = host_block(site, site.servers["node1"])
    config = tmp_path / "config"
    config.write_text(
        "".join(
            block.replace("Host node1", f"Host {name}") + "  ProxyJump node0\n" for name in names
        )
        + site.config.read_text()
    )
    found = connect_all([entry(site, name, config=config) for name in names], timeout_s=120)
    failed = [str(each) for each in found.values() if isinstance(each, ConnectError)]
    for each in found.values():
        if not isinstance(each, ConnectError):
            each.close()
    assert failed == []


def test_a_frozen_sshd_is_noticed(tmp_path: Path) -> None:
    with running_site(tmp_path, ["node0"]) as frozen:
        process = frozen.servers["node0"].process
        os.kill(process.pid, signal.SIGSTOP)
        try:
            said = refusal(entry(frozen), timeout_s=3)
        finally:
            os.kill(process.pid, signal.SIGCONT)
    assert "may be hung" in said


@pytest.mark.parametrize("name", ["-oProxyCommand=touch", "a;b", "a b", "$(id)", "a\nb", "a'b"])
def test_a_hostile_name_is_refused(site: Site, name: str) -> None:
    result = attempt(entry(site, name))
    assert isinstance(result, ConnectError)
    assert "name" in str(result)


def test_many_hosts_fail_each_by_itself(site: Site) -> None:
    nowhere = HostEntry(name="node1", login=Login(config=site.config, port=free_port("127.0.0.3")))
    found = connect_all([entry(site), nowhere], timeout_s=4)
    good = found["node0"]
    assert not isinstance(good, ConnectError)
    good.close()
    assert isinstance(found["node1"], ConnectError)
