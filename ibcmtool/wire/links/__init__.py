"""The link types that are read: each module here holds the record of one. A new module is all that a new one needs."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from ibcmtool.wire.link_record import LinkType


def _found() -> dict[int, LinkType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    records = [value for module in modules for value in vars(module).values() if isinstance(value, LinkType)]
    return {record.number: record for record in sorted(records, key=lambda record: record.number)}


LINK_TYPES: Final = _found()
"""By LINKTYPE_ number."""
