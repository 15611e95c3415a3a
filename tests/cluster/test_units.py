import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import UsageError
from rankrun.cluster.units import format_size, gbps, parse_size_bytes


@given(st.integers(min_value=0, max_value=1 << 50))
def test_format_and_parse_are_inverse(size_bytes: int) -> None:
    assert parse_size_bytes(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8", 8), ("1k", 1024), ("2M", 2 << 20), ("1G", 1 << 30), ("3KB", 3072), ("1GiB", 1 << 30)],
)
def test_binary_suffixes(text: str, size_bytes: int) -> None:
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "-1", "1.5M", "M", "8Q", "1 M", "٣"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size_bytes(text)


def test_a_gigabyte_is_a_thousand_million_bytes() -> None:
    assert gbps(2e9, 2.0) == 1.0
