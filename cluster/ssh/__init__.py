"""Connections to hosts over SSH; the one place that knows how SSH is spoken.

Nothing is imported here that speaks it: paramiko is, once a connection is made with it.
"""

from .connections import Connections, connect, connect_all
from .deadline import Deadline
from .fan_out import fan_out
from .key_ring import Ask
from .quoting import shell_command
from .transport import Channel, Completed, Transport

__all__ = [
    "Ask",
    "Channel",
    "Completed",
    "Connections",
    "Deadline",
    "Transport",
    "connect",
    "connect_all",
    "fan_out",
    "shell_command",
]
