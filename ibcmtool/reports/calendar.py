"""Times as people read them: absolute in UTC or local time, relative to a start."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Literal

from ibcmtool import formatting

Zone = Literal["utc", "local"]
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Calendar:
    """Formats nanoseconds since the epoch in one zone.

    A time outside the calendar (a damaged time stamp) is written as seconds since the epoch; nothing here raises.
    """

    def __init__(self, zone: Zone = "utc") -> None:
        self.zone: Zone = zone

    def _moment(self, ns: int) -> datetime | None:
        try:
            moment = _EPOCH + timedelta(seconds=ns // formatting.SECOND)
            return moment if self.zone == "utc" else moment.astimezone()
        except (OverflowError, OSError, ValueError):
            return None

    def time(self, ns: int, digits: int = 6) -> str:
        """The time of day, cut (not rounded) to `digits` fractions of a second: "14:07:03.123456"."""
        moment = self._moment(ns)
        if moment is None:
            return formatting.seconds(ns)
        fraction = f".{ns % formatting.SECOND:09d}"[: digits + 1] if digits else ""
        return f"{moment:%H:%M:%S}{fraction}"

    def date(self, ns: int) -> str:
        """The day: "2026-02-11"; empty for a time outside the calendar."""
        moment = self._moment(ns)
        return "" if moment is None else f"{moment:%Y-%m-%d}"

    def zone_name(self, ns: int) -> str:
        """ "UTC", or the local zone's name or offset at that time."""
        if self.zone == "utc":
            return "UTC"
        moment = self._moment(ns)
        return "" if moment is None else moment.tzname() or f"{moment:%z}"

    def full(self, ns: int, digits: int = 6) -> str:
        """Date, time and zone: "2026-02-11 14:07:03.123456 UTC"."""
        return " ".join(filter(None, (self.date(ns), self.time(ns, digits), self.zone_name(ns))))

    @staticmethod
    def relative(ns: int, digits: int = 6) -> str:
        """Seconds from a start, signed: "+65.899912"."""
        text = formatting.seconds(ns)
        text = text[: len(text) - 9 + digits]
        return text if ns < 0 else "+" + text
