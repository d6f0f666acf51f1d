"""Prints the lowest versions that pyproject.toml allows of what ibcmtool needs, as constraints for pip.

Usage: lowest.py, with an interpreter that has ibcmtool installed
"""

from __future__ import annotations

import re
from importlib.metadata import requires

for requirement in requires("ibcmtool") or []:
    bound = re.match(r"([\w.-]+)[^;]*>=([\w.]+)", requirement)
    if bound is not None:
        print(f"{bound[1]}=={bound[2]}")
