"""IPv6 with nothing in front."""

from __future__ import annotations

from typing import Final

from ibcmtool.wire.links.raw_ip import RAW_IP

RAW_IPV6: Final = RAW_IP._replace(number=229, name="raw IPv6")
