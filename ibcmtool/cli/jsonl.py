"""JSON lines: the objects of the JSON report, one per line as they come, each with its "kind"."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from ibcmtool.model import Connection, Finding, InputInfo, Severity
from ibcmtool.views.filters import at_least

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


class LineWriter:
    """Writes the objects of one analysis, and remembers of them what the exit code needs."""

    def __init__(self, out: TextIO, min_severity: Severity) -> None:
        self.out = out
        self.min_severity = min_severity
        self.inputs: list[InputInfo] = []
        self.severities: Counter[Severity] = Counter()  # of all findings, shown or not
        self._outcomes: Counter[str] = Counter()
        self._codes: Counter[str] = Counter()

    def write(self, objects: Iterable[InputInfo | Connection | Finding]) -> None:
        from ibcmtool.reports.connection_json import connection_text
        from ibcmtool.reports.display_filter import DisplayFilters
        from ibcmtool.reports.json import finding_object, input_object, line, summary_object
        from ibcmtool.reports.pieces import in_pieces
        from ibcmtool.views.attempts import Grouping

        filters, grouping = DisplayFilters(), Grouping()
        with in_pieces(self.out) as write:
            for item in objects:
                if isinstance(item, Connection):
                    self._outcomes[item.outcome] += 1
                    grouping.add(item)
                    write(line("connection", connection_text(item, filters.of(item))))
                elif isinstance(item, InputInfo):
                    self.inputs.append(item)
                    write(line("input", json.dumps(input_object(item))))
                else:
                    self.severities[item.severity] += 1
                    if at_least(item.severity, self.min_severity):
                        self._codes[item.code] += 1
                        write(line("finding", json.dumps(finding_object(item))))
            summary = summary_object(self._outcomes, self._codes, grouping.groups())
            write(line("summary", json.dumps(summary)))
