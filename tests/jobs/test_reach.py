"""Who answers on MASTER_PORT, dialled for real over the loopback."""

import socket
import threading
from collections.abc import Iterator

import pytest

from rankrun.jobs.agent.facts import interface_of, list_addresses
from rankrun.jobs.agent.kernel import reserve_port
from rankrun.jobs.agent.reach import PortHolder, dial

from .running import PATIENCE_S


@pytest.fixture
def holder() -> Iterator[PortHolder]:
    held = reserve_port()
    holder = PortHolder(held.getsockname()[1], held)
    yield holder
    holder.close()


def answering(holder: PortHolder, answer: str, calls: int = 1) -> threading.Thread:
    """The agent's loop, in small: wait for callers, answer them."""
    listener = holder.listen(answer)

    def serve() -> None:
        import select

        for _ in range(calls):
            assert select.select([listener], [], [], PATIENCE_S)[0]
            holder.answer_callers()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_the_master_answers(holder: PortHolder) -> None:
    thread = answering(holder, "secret")
    (attempt,) = dial(["127.0.0.1"], holder.port, "secret", PATIENCE_S)
    thread.join()
    assert (attempt.failure, attempt.own_address) == ("", "127.0.0.1")


def test_another_program_is_not_the_master(holder: PortHolder) -> None:
    thread = answering(holder, "another word")
    (attempt,) = dial(["127.0.0.1"], holder.port, "secret", PATIENCE_S)
    thread.join()
    assert attempt.failure == "another program answered there, not the master"


def test_a_silent_program_is_not_the_master() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (attempt,) = dial(["127.0.0.1"], silent.getsockname()[1], "secret", 0.2)
    assert attempt.failure == "connected, but nobody answered"


def test_several_addresses_are_dialled_at_once(holder: PortHolder) -> None:
    thread = answering(holder, "secret")
    attempts = dial(["127.0.0.1", "no address", "127.0.0.99"], holder.port, "secret", PATIENCE_S)
    thread.join()
    assert [attempt.address for attempt in attempts] == ["127.0.0.1", "no address", "127.0.0.99"]
    assert attempts[0].failure == ""
    assert attempts[1].failure != ""


def test_refused(holder: PortHolder) -> None:
    (attempt,) = dial(["127.0.0.1"], holder.port, "secret", PATIENCE_S)
    assert attempt.failure == "Connection refused"


def test_rank_0_can_listen_there_afterwards(holder: PortHolder) -> None:
    thread = answering(holder, "secret")
    dial(["127.0.0.1"], holder.port, "secret", PATIENCE_S)
    thread.join()
    holder.stop_listening()
    with socket.create_server(("127.0.0.1", holder.port)) as server:
        assert server.getsockname()[1] == holder.port


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("", 0)) as taken, pytest.raises(OSError, match="in use"):
        reserve_port(taken.getsockname()[1])


def test_addresses_are_those_that_can_be_bound() -> None:
    for interface, address in list_addresses():
        assert interface_of(address) == interface
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as bound:
            bound.bind((address, 0))
