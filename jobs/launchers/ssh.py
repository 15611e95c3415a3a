"""Ranks on plain hosts: one SSH connection and one agent per host.

`resolve` connects to all hosts, starts an agent on each and has them find the address at which
all can reach the master; the same agents then take part in the first run that is submitted.
"""

from collections.abc import Sequence
from dataclasses import replace

from ...cluster.errors import ConnectError
from ...cluster.hosts import HostEntry
from ...cluster.ssh import Transport, connect_all, shell_command
from ...cluster.targets import Target
from ..agent import messages
from ..plan import LaunchPlan, ResolvedTarget
from ..run_folder import RunFolder
from . import JobHandle
from .agent_connection import AgentConnection
from .agent_group import AgentGroup, Member, refuse
from .agent_job import AgentJob
from .agent_link import start
from .bundle import make_bundle
from .remote_start import start_command
from .ssh_wire import SshWire

# Without a word for so long the agents end their ranks, and the controller gives up a host.
LEASE_S = 6.0
SILENCE_S = 8.0

CONNECT_S = 60.0
_WELCOME_S = 30.0


class SshLauncher:
    """Starts plans on hosts that only need sshd and Python."""

    def __init__(self, *, port: int | None = None) -> None:
        """`port` is MASTER_PORT where a firewall lets only that one through."""
        self._port = port
        self._entries: Sequence[HostEntry] = ()
        self._transports: dict[str, Transport] = {}
        self._group: AgentGroup | None = None

    def resolve(self, target: Target) -> ResolvedTarget:
        """Connect, start the agents, find where the ranks will meet.

        Raises:
            LaunchError: naming every host that cannot take part, and why.
        """
        self._entries = target.hosts
        self._connect()
        self._group = self._start_agents()
        return ResolvedTarget(
            text=target.text,
            launcher=target.launcher,
            hosts=self._group.resolve_hosts(port=self._port),
            remote=True,
            settings=target.settings,
        )

    def submit(self, plan: LaunchPlan) -> AgentJob:
        """Tell the agents what to start; new ones if these already served a run.

        Raises:
            LaunchError: naming every host whose agent cannot be started.
        """
        plan = replace(plan, limits=replace(plan.limits, lease_s=LEASE_S))
        group, self._group = self._group, None
        if group is None or not group.complete:
            group = self._start_agents()
            group.reserve(self._port)
        folder = RunFolder(plan.run_folder)
        for group_rank, agent in enumerate(group.agents):
            assert isinstance(agent.wire, SshWire)
            agent.wire.log = folder.agent_log(group_rank)
            agent.put(start(plan, group_rank=group_rank))
        handle = JobHandle(launcher="ssh", job_id=plan.run_id)
        return AgentJob(handle, group.agents, lease_s=LEASE_S, so_far=group.heard)

    def close(self) -> None:
        """Leave all hosts; agents that were not told to start anything end by themselves."""
        if self._group is not None:
            self._group.close()
        for transport in self._transports.values():
            transport.close()

    def _connect(self) -> None:
        found = connect_all(self._entries, timeout_s=CONNECT_S)
        self._transports = {n: t for n, t in found.items() if not isinstance(t, ConnectError)}
        refuse(
            [str(each) for each in found.values() if isinstance(each, ConnectError)],
            f"of {len(self._entries)} hosts cannot be reached",
        )

    def _start_agents(self) -> AgentGroup:
        prologue = make_bundle().prologue() + messages.encode(messages.Hello(messages.PROTOCOL))
        members = []
        for entry in self._entries:
            transport = self._transports[entry.name]
            wire = SshWire(transport.open(shell_command(start_command(entry))))
            agent = AgentConnection(wire, host=entry.name, silence_s=SILENCE_S)
            agent.put(prologue)
            members.append(Member(entry=entry, agent=agent, dialled=transport.peer_address))
        group = AgentGroup(members)
        group.welcome_all(_WELCOME_S)
        return group
