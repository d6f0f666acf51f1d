"""Which ibcmtool this is."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec

from ibcmtool import __version__


def compiled() -> bool:
    """Whether the hot rooms are loaded as extension modules, which mypyc made from the same sources."""
    spec = find_spec("ibcmtool.model")  # finds without loading; whatever is compiled is one library with it
    return spec is not None and isinstance(spec.loader, ExtensionFileLoader)


def version_line() -> str:
    """What --version prints."""
    return f"ibcmtool {__version__} ({'compiled' if compiled() else 'pure Python'})"
