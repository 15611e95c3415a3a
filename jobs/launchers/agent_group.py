"""The agents of several hosts before a run: who is there, and where their ranks will meet."""

import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...cluster.errors import LaunchError
from ...cluster.hosts import Host, HostEntry
from ...cluster.targets import LOOPBACK_ADDRESS, LOOPBACK_INTERFACE
from ..agent import messages
from ..agent.messages import Welcome
from ..events import Event, HostEvent
from .agent_connection import AgentConnection
from .agent_job import Condition, wait_for_all
from .reachability import Meeting, candidates, choose, explain

_DIAL_S = 3.0
_ANSWER_S = 10.0
_EXCHANGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A host and its agent; `dialled` is the address that the controller reached it by."""

    entry: HostEntry
    agent: AgentConnection
    dialled: str | None = None

    @property
    def welcome(self) -> Welcome:
        """What the host says of itself."""
        assert self.agent.link.welcome is not None
        return self.agent.link.welcome


class AgentGroup:
    """One agent per host, in the order of the hosts; the first is the master's."""

    def __init__(self, members: Sequence[Member]) -> None:
        """The agents were started and said Hello to."""
        self.members = members
        self.heard: list[Event] = []

    @property
    def agents(self) -> list[AgentConnection]:
        """All of them."""
        return [member.agent for member in self.members]

    @property
    def complete(self) -> bool:
        """Whether none is lost."""
        return not any(agent.over for agent in self.agents)

    def welcome_all(self, timeout_s: float) -> None:
        """Wait until every agent answers.

        Raises:
            LaunchError: naming the hosts whose agents do not.
        """
        self._await(lambda agent: agent.link.welcome is not None, "start the agent", timeout_s)
        for number in range(1, _EXCHANGES + 1):
            self._compare_clocks(number)
        self.heard += [_clock_event(agent) for agent in self.agents]

    def _compare_clocks(self, number: int) -> None:
        for agent in self.agents:
            agent.tell(messages.Ping(time.time()))
        self._await(
            lambda agent: agent.link.clock.num_exchanges >= number, "tell the time", _ANSWER_S
        )

    def resolve_hosts(self, *, port: int | None) -> tuple[Host, ...]:
        """Find where the ranks meet; `port` is MASTER_PORT if it has to be a certain one.

        Raises:
            LaunchError: if no address of the master answers to all others, and why.
        """
        meeting = self._meet(port)
        return tuple(_host(member, meeting) for member in self.members)

    def reserve(self, port: int | None, *, answer: str = "") -> int:
        """MASTER_PORT, held by the master's agent; until the start it answers who dials it.

        Raises:
            LaunchError: if the port is taken.
        """
        master = self.members[0]
        link = master.agent.link
        master.agent.tell(messages.Reserve(port, answer))
        self._await(
            lambda agent: agent is not master.agent or (link.port or link.port_refused) is not None,
            "reserve a port",
            _ANSWER_S,
        )
        if link.port is None:
            raise LaunchError(
                f"{master.entry.name}: port {port or 'any'} cannot be had: {link.port_refused}; "
                "choose another with --standalone-port, or none to take any that is free"
            )
        return link.port

    def close(self) -> None:
        """End all agents."""
        for agent in self.agents:
            agent.close()

    def _meet(self, wanted_port: int | None) -> Meeting:
        master, *others = self.members
        if not others:
            self.reserve(wanted_port)
            return Meeting(
                address=LOOPBACK_ADDRESS, interfaces={master.entry.name: LOOPBACK_INTERFACE}
            )
        answer = secrets.token_hex(16)
        port = self.reserve(wanted_port, answer=answer)
        entry = replace(master.entry, address=_numeric(master.entry))
        addresses = candidates(entry, master.welcome, dialled=master.dialled)
        if not addresses:
            named = f" {entry.interface}" if entry.interface else ""
            raise LaunchError(f"{entry.name}: no interface{named} with an address is up there")
        for member in others:
            member.agent.tell(messages.Dial(addresses, port, answer, _DIAL_S))
        self._await(
            lambda agent: agent is master.agent or agent.link.attempts is not None,
            "dial the master",
            _DIAL_S + _ANSWER_S,
        )
        attempts = {member.entry.name: member.agent.link.attempts or [] for member in others}
        meeting = choose(entry, master.welcome, attempts)
        if meeting is None:
            lines = "\n".join(f"  {line}" for line in explain(entry.name, port, attempts))
            raise LaunchError(
                f"no address of {entry.name}, the master, answers to all other hosts\n{lines}\n"
                "open that port between the hosts (another with --standalone-port), or name a "
                "reachable one with address: or interface: in the cluster file"
            )
        return meeting

    def _await(self, done: Condition, what: str, timeout_s: float) -> None:
        agents = self.agents
        self.heard += wait_for_all(agents, done=done, timeout_s=timeout_s)
        refuse(
            [
                f"{agent.host}: {agent.lost or f'no answer within {timeout_s:g} s'}"
                for agent in agents
                if agent.over or not done(agent)
            ],
            f"of {len(agents)} hosts could not {what}",
        )


def refuse(troubles: Sequence[str], what: str) -> None:
    """One line per host in trouble, all of them.

    Raises:
        LaunchError: if there is any.
    """
    if troubles:
        lines = "\n".join(f"  {line}" for line in troubles)
        raise LaunchError(f"{len(troubles)} {what}\n{lines}")


def _clock_event(agent: AgentConnection) -> Event:
    clock = agent.link.clock
    detail = f"{clock.offset_s:+.6f} s, within {clock.uncertainty_s or 0.0:.6f} s"
    return HostEvent(time_s=time.time(), host=agent.host, what="clock-offset", detail=detail)


def _numeric(entry: HostEntry) -> str | None:
    """The address that the inventory names, resolved here: hosts may do so each in their own way.

    Raises:
        LaunchError: if it does not resolve.
    """
    if entry.address is None:
        return None
    try:
        found = socket.getaddrinfo(entry.address, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LaunchError(
            f"{entry.name}: address {entry.address!r} does not resolve: {error}; write numbers"
        ) from error
    return str(found[0][4][0])


def _host(member: Member, meeting: Meeting) -> Host:
    entry, welcome = member.entry, member.welcome
    return Host(
        name=entry.name,
        address=_own_address(member, meeting),
        slots=entry.slots or welcome.num_gpus or 1,
        interface=entry.interface or meeting.interfaces[entry.name] or None,
        python=welcome.executable,
        workdir=entry.workdir,
        environment=entry.environment,
    )


def _own_address(member: Member, meeting: Meeting) -> str:
    """The host's address towards the master; the master's own is where all meet."""
    for attempt in member.agent.link.attempts or ():
        if attempt.address == meeting.address:
            return attempt.own_address
    return meeting.address
