"""Choosing connections: which of an analysis a person wants to see."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ibcmtool import formatting
from ibcmtool.analysis import SEVERITIES, Finding
from ibcmtool.model import Connection

if TYPE_CHECKING:
    from ibcmtool.analysis import Analysis, InputInfo, Severity
    from ibcmtool.model import End


def _names(end: End) -> Iterator[str]:
    """The texts by which people may know an end, in lower case."""
    yield end.name.lower()
    if end.address.gid is not None:
        gid = ipaddress.IPv6Address(end.address.gid)
        yield f"::ffff:{gid.ipv4_mapped}" if gid.ipv4_mapped is not None else str(gid)
        yield gid.exploded
    if end.address.lid is not None:
        yield f"lid {end.address.lid}"
    if end.ca_guid is not None:
        yield f"0x{end.ca_guid:016x}"
        yield formatting.guid(end.ca_guid)


@dataclass(frozen=True, slots=True)
class Filter:
    """A connection passes when it fits each criterion that is set; the values of one criterion are alternatives.

    `peer` and `service` hold parts of names (case does not matter); `service` also takes the service id as a number.
    `code` asks for a finding that concerns the connection; its case does not matter either.
    """

    connection: tuple[int, ...] = ()
    peer: tuple[str, ...] = ()
    service: tuple[str, ...] = ()
    qpn: tuple[int, ...] = ()
    outcome: tuple[str, ...] = ()
    code: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.connection, self.peer, self.service, self.qpn, self.outcome, self.code))

    def matches(self, connection: Connection) -> bool:
        """Whether the connection fits all criteria but `code`, which only findings can answer."""
        ends = (connection.active, connection.passive)
        return (
            (not self.connection or connection.id in self.connection)
            and (not self.outcome or connection.outcome in self.outcome)
            and (not self.qpn or any(end.qpn in self.qpn for end in ends))
            and (not self.peer or _any_part(self.peer, (name for end in ends for name in _names(end))))
            and (not self.service or self._serves(connection))
        )

    def asks_for(self, finding: Finding) -> bool:
        """Whether --code names this finding's."""
        return finding.code.lower() in {code.lower() for code in self.code}

    def _serves(self, connection: Connection) -> bool:
        from ibcmtool.services import connection_service

        service = connection.service_id
        if service is not None and any(_as_number(text) == service for text in self.service):
            return True
        return _any_part(self.service, [connection_service(connection).lower()])


def _any_part(parts: tuple[str, ...], names: Iterable[str]) -> bool:
    wanted = [part.lower() for part in parts]
    return any(part in name for name in names for part in wanted)


def _as_number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def at_least(severity: Severity, bar: Severity) -> bool:
    """Whether a severity is as bad as the bar, or worse."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(bar)


def concerns(finding: Finding) -> set[int]:
    """The ids of all connections that a finding speaks of."""
    return {number for number in (finding.connection, *finding.related) if number is not None}


def apply(chosen: Filter, analysis: Analysis) -> Analysis:
    """The analysis of the chosen connections: they, and the findings that concern one of them.

    Findings about the capture as a whole stay only where their own code is asked for.
    """
    if not chosen:
        return analysis
    kept = {connection.id for connection in analysis.connections if chosen.matches(connection)}
    if chosen.code:
        kept &= {number for finding in analysis.findings if chosen.asks_for(finding) for number in concerns(finding)}
    return replace(
        analysis,
        connections=[connection for connection in analysis.connections if connection.id in kept],
        findings=[
            finding
            for finding in analysis.findings
            if concerns(finding) & kept or (not concerns(finding) and chosen.asks_for(finding))
        ],
    )


def apply_to_stream(
    chosen: Filter, objects: Iterable[InputInfo | Connection | Finding]
) -> Iterator[InputInfo | Connection | Finding]:
    """The same choice on a stream; a finding waits until the connections that it concerns have ended.

    What is kept between objects are ids, and the findings of connections that are still open. `code` cannot be
    decided before the last finding is known: a Filter with codes is refused.
    """
    if chosen.code:
        raise ValueError("a stream cannot be filtered by the code of findings")
    if not chosen:
        yield from objects
        return
    kept: set[int] = set()
    left_out: set[int] = set()
    waiting: list[Finding] = []
    for item in objects:
        if isinstance(item, Connection):
            fits = chosen.matches(item)
            (kept if fits else left_out).add(item.id)
            if fits:
                yield item
            still: list[Finding] = []
            for finding in waiting:
                if concerns(finding) & kept:
                    yield finding
                elif concerns(finding) - left_out:
                    still.append(finding)
            waiting = still
        elif isinstance(item, Finding):
            ids = concerns(item)
            if ids & kept:
                yield item
            elif ids - left_out:
                waiting.append(item)
        else:
            yield item
