import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.errors import UsageError
from rankrun.cluster.inventory.ranges import MAX_HOSTS, expand_hosts


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("node1", ("node1",)),
        ("node[0-2]", ("node0", "node1", "node2")),
        ("node[08-10,12]", ("node08", "node09", "node10", "node12")),
        ("r[1-2]n[1,3]-ib", ("r1n1-ib", "r1n3-ib", "r2n1-ib", "r2n3-ib")),
        ("b,a", ("b", "a")),
        ("alice@gpu[1-2].site", ("alice@gpu1.site", "alice@gpu2.site")),
    ],
)
def test_expressions(expression: str, names: tuple[str, ...]) -> None:
    assert expand_hosts(expression) == names


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "no host name"),
        ("a,,b", "no host name"),
        ("node[3-1]", "runs backwards"),
        ("node[]", "is no range"),
        ("node[1-]", "is no range"),
        ("node[1-2", "no host name"),
        ("node1,node2,node1", "as number 1 and number 3"),
        ("node[1-3],node2", "named twice"),
        (f"node[1-{MAX_HOSTS + 1}]", "more than"),
        ("n[1-9999][1-9999][1-9999]", "more than"),
        ("-oProxyCommand=x", "no host name"),
        ("a'; echo foo", "no host name"),
        ("a b", "no host name"),
        ("a\nb", "no host name"),
        ("$(id)", "no host name"),
    ],
)
def test_what_is_no_expression(expression: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        expand_hosts(expression)


@given(first=st.integers(0, 500), count=st.integers(1, 50), width=st.integers(1, 5))
def test_a_range_counts_and_keeps_its_zeros(first: int, count: int, width: int) -> None:
    begin = str(first).zfill(width)
    names = expand_hosts(f"n[{begin}-{first + count - 1}]")
    assert [int(name[1:]) for name in names] == list(range(first, first + count))
    assert all(len(name) > width for name in names)
