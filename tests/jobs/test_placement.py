from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.hosts import Host
from rankrun.jobs.placement import place

slot_counts = st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=12)


def hosts(slots: list[int]) -> list[Host]:
    return [Host(name=f"node{i}", address=f"10.0.0.{i}", slots=n) for i, n in enumerate(slots)]


@given(slot_counts)
def test_ranks_are_numbered_by_prefix_sums(slots: list[int]) -> None:
    placement = place(hosts(slots))
    assert [rank.global_rank for rank in placement.ranks] == list(range(sum(slots)))
    for group_rank, count in enumerate(slots):
        there = placement.on_host(group_rank)
        assert [rank.local_rank for rank in there] == list(range(count))
        assert [rank.global_rank for rank in there] == [
            sum(slots[:group_rank]) + local_rank for local_rank in range(count)
        ]
        assert {rank.local_world_size for rank in there} == {count}


@given(slot_counts)
def test_hosts_keep_their_order(slots: list[int]) -> None:
    assert list(place(hosts(slots)).hosts) == hosts(slots)
