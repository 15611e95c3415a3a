"""Who arrived at a call and who did not, read off the ranks' counters. Pure.

A rank's place is (step, calls finished in it); it waits if it has started one more. All ranks
make the same calls in the same order, so the rank that is furthest behind holds up the others:
outside a call it has not arrived; inside one with everybody else, the call itself is stuck.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...cluster.compat import StrEnum
from ...jobs.events import Progress


class Picture(StrEnum):
    """What the counters show."""

    MISSING = "missing"  # some ranks have not arrived at the call others wait in
    STUCK = "stuck"  # all ranks wait in the same call
    APART = "apart"  # ranks wait in calls of different steps
    LEFT_BEHIND = "left behind"  # some wait in a call that others have left
    BETWEEN = "between"  # no rank is in a call


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """A picture of a hang. `step` and `call` (from 1) say where.

    `waiting` ranks are in that call or beyond it and wait, `missing` ranks have not made it,
    `beyond` ranks have left it.
    """

    picture: Picture
    step: int
    call: int
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    beyond: tuple[int, ...] = ()


def read_arrivals(ranks: Mapping[int, Progress]) -> Arrivals:
    """The picture of the living ranks (at least one)."""
    place = {rank: (at.step, at.finished) for rank, at in ranks.items()}
    inside = {rank for rank, at in ranks.items() if at.started > at.finished}
    first = min(place.values())
    behind = {rank for rank in ranks if place[rank] == first}
    step, call = first[0], first[1] + 1
    outside = behind - inside
    if not inside:
        return _picture(Picture.BETWEEN, (step, call), waiting=(), missing=behind)
    if outside:
        # Those furthest behind that are in no call; a peer at the same place already waits.
        return _picture(Picture.MISSING, (step, call), waiting=inside, missing=outside)
    beyond = set(ranks) - behind
    if not beyond:
        return _picture(Picture.STUCK, (step, call), waiting=behind, missing=())
    apart = any(ranks[rank].step != step and rank in inside for rank in beyond)
    picture = Picture.APART if apart else Picture.LEFT_BEHIND
    return _picture(picture, (step, call), waiting=behind, missing=(), beyond=beyond)


def _picture(
    picture: Picture,
    at: tuple[int, int],
    *,
    waiting: set[int] | tuple[int, ...],
    missing: set[int] | tuple[int, ...],
    beyond: set[int] | tuple[int, ...] = (),
) -> Arrivals:
    return Arrivals(
        picture=picture,
        step=at[0],
        call=at[1],
        waiting=tuple(sorted(waiting)),
        missing=tuple(sorted(missing)),
        beyond=tuple(sorted(beyond)),
    )
