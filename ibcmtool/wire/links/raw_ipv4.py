"""IPv4 with nothing in front."""

from __future__ import annotations

from typing import Final

from ibcmtool.wire.links.raw_ip import RAW_IP

RAW_IPV4: Final = RAW_IP._replace(number=228, name="raw IPv4")
