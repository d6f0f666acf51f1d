"""The console script, and `python -m ibcmtool`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    # A capture makes millions of objects, few of them in cycles, and so does the loading of modules: looking for cycles
    # as often as Python does by default would take a third of the time. So this comes before anything else is loaded.
    gc.set_threshold(200_000, 20, 50)

    from ibcmtool import cli

    gc.freeze()
    status = cli.main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = status or 2
    os._exit(status)  # nothing is left to put in order: taking all objects apart one by one would be for nothing


if __name__ == "__main__":
    main()
