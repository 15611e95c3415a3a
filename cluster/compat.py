"""What newer Pythons have and 3.10 lacks."""

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):  # this is the backport the rule asks for
        """enum.StrEnum of Python 3.11."""

        def __str__(self) -> str:
            return str(self.value)


__all__ = ["StrEnum"]
