import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import UsageError
from rankrun.jobs.settings import (
    forward_settings,
    parse_nccl_settings,
    parse_settings,
    parse_toggle,
)

values = st.text(st.characters(exclude_characters="\0"))


@given(values)
def test_a_value_may_hold_anything(value: str) -> None:
    assert parse_settings([f"NAME={value}"]) == {"NAME": value}


@pytest.mark.parametrize(
    "text", ["", "NAME", "=1", "1A=1", "A B=1", "A-B=1", "a'; echo foo=1", "É=1"]
)
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="KEY=VALUE"):
        parse_settings([text])


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(UsageError, match="NUL"):
        parse_settings(["A=\0"])


def test_the_last_one_wins() -> None:
    assert parse_settings(["A=1", "A=2"]) == {"A": "2"}


def test_nccl_prefix() -> None:
    assert parse_nccl_settings(["ALGO=Ring"]) == {"NCCL_ALGO": "Ring"}
    assert parse_nccl_settings(["NCCL_ALGO=Ring"]) == {"NCCL_ALGO": "Ring"}
    assert parse_nccl_settings(["TORCH_NCCL_BLOCKING_WAIT=1"]) == {"TORCH_NCCL_BLOCKING_WAIT": "1"}


def test_toggle() -> None:
    assert parse_toggle("NCCL_P2P_DISABLE") == ("NCCL_P2P_DISABLE", "1")
    assert parse_toggle("GLOO_SOCKET_IFNAME=eth0") == ("GLOO_SOCKET_IFNAME", "eth0")
    with pytest.raises(UsageError, match="--toggle"):
        parse_toggle("no name")


def test_a_name_alone_takes_its_value_from_here() -> None:
    assert forward_settings(["TOKEN", "A=x=y"], {"TOKEN": "a b"}) == ["TOKEN=a b", "A=x=y"]
    with pytest.raises(UsageError, match="export it first"):
        forward_settings(["TOKEN"], {})
