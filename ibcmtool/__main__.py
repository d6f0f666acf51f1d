"""`python -m ibcmtool`."""

from __future__ import annotations

from ibcmtool.cli import main

if __name__ == "__main__":
    main()
