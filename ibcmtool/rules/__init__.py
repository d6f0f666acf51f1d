"""The judges: rules over the tracker's events, by the letter of their codes.

api.py says what a rule is, judge.py whom it asks, context.py what a rule may look at, conditions.py and steps.py what
several rules ask in the same way; facts/ is what is known of hosts, ports and captures.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from ibcmtool.rules.api import CATALOGUE, Rule
from ibcmtool.rules.judge import Judge

__all__ = ["CATALOGUE", "Judge", "Rule"]

# Importing a module enters its rules into the catalogue.
for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
