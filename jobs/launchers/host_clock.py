"""How far a host's clock is from the controller's, so that events of all hosts have one order.

    offset = host's time - (time sent + time received) / 2

of the exchange that took least, as the Network Time Protocol has it (RFC 5905, section 8); the
true offset is at most half of that exchange's time away.
"""


class HostClock:
    """Nothing is known of it until the first exchange: then it counts as the controller's."""

    def __init__(self) -> None:
        """No exchange yet."""
        self.num_exchanges = 0
        self.offset_s = 0.0
        self.uncertainty_s: float | None = None

    def add(self, *, sent_s: float, host_s: float, received_s: float) -> None:
        """One exchange; all but the shortest are forgotten."""
        self.num_exchanges += 1
        half_s = (received_s - sent_s) / 2
        if half_s >= 0 and (self.uncertainty_s is None or half_s < self.uncertainty_s):
            self.uncertainty_s = half_s
            self.offset_s = host_s - (sent_s + half_s)

    def here(self, host_s: float) -> float:
        """A time of the host's as the controller's clock would have shown it."""
        return host_s - self.offset_s
