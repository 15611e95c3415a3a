"""The `rankrun` command, also `python -m rankrun`: quiet about Ctrl-C from its first moments."""

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C may come while it still loads."""
    try:
        from .scripts.main import main as command  # noqa: PLC0415  # see above

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
