"""The words of a ladder: what stands below an arrow, between the lifelines, and in the findings beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from ibcmtool import formatting
from ibcmtool.analysis import Finding
from ibcmtool.connections.timewait_models import MODELS
from ibcmtool.model import Connection
from ibcmtool.reports import message_summary, style
from ibcmtool.reports.ladder_entries import Entry
from ibcmtool.reports.page import Page


def frame_name(frame: tuple[int, int] | None, several_files: bool) -> str:
    """ "7", with several inputs "2:7" (input:frame)."""
    if frame is None:
        return ""
    return f"{frame[0] + 1}:{frame[1]}" if several_files else str(frame[1])


def details(conn: Connection, entry: Entry, several_files: bool) -> list[str]:
    """What a message says, or of which it is a retransmission, and what is strange about it."""
    step = entry.step
    assert step is not None
    message = step.message
    if entry.send is not None and step.retransmission_of is not None:
        number, allowed = entry.send
        first = step.retransmission_of.message
        of = f" of {allowed}" if allowed is not None else ""
        made = [f"send {number}{of}", f"as frame {frame_name((first.file, first.frame), several_files)}"]
    else:
        made = [f"{label} {value}".strip() for label, value in message_summary.telling_fields(message, conn)]
    if step.disposition == "ignored":
        made.append("ignored by the receiver")
    elif step.disposition == "unexpected":
        made.append("unexpected")
    elif step.disposition == "duplicate" and entry.send is None:
        made.append("duplicate")
    if step.sender == "unknown":
        made.append(f"{formatting.address(message.source)} to {formatting.address(message.destination)}")
    if entry.lost:
        made.append("lost on the way")
    if step.sightings:
        seen = ", ".join(frame_name((one.file, one.frame), several_files) for one in step.sightings)
        made.append(f"captured again as {seen}")
    return made


def event(conn: Connection, entry: Entry, several_files: bool) -> list[str]:
    """What happened without a message."""
    if entry.kind == "timewait over":
        return list(_timewait(conn, entry))
    if entry.kind == "findings":
        # Several findings may be about the same frames.
        return list(dict.fromkeys(_elsewhere(conn, finding, several_files) for finding in entry.findings))
    return {"timewait begins": ["timewait begins"], "capture ends": ["the capture ends"]}.get(entry.kind, [])


def _timewait(conn: Connection, entry: Entry) -> Iterator[str]:
    interval = conn.end(entry.roles[0]).timewait
    assert interval is not None
    model, length = MODELS[interval.model].owner, interval.likely - interval.start
    yield f"timewait over ({model}, {formatting.duration(length)})"
    if interval.maximum > interval.likely:
        where = "elsewhere " if interval.model == "auto" else ""
        yield f"{where}{formatting.duration(interval.maximum - interval.start)} at most"
    if interval.assumed:
        yield "its length is assumed"


def _elsewhere(conn: Connection, finding: Finding, several_files: bool) -> str:
    """Where the frames of a finding are, none of which is in this ladder."""
    frames = formatting.frames(finding.frames, several_files)
    if finding.connection in (None, conn.id) or not frames:
        return frames
    return f"{frames} of connection {finding.connection}"


def callouts(page: Page, findings: Sequence[Finding], width: int) -> list[Text]:
    """Findings in lines of at most `width`, each behind a bar in the colour of its severity."""
    lines: list[Text] = []
    for finding in findings:
        name = style.SEVERITY[finding.severity]
        certainty = "" if finding.confidence == "certain" else f" ({finding.confidence})"
        head = Text.assemble(Text(f"{finding.code} {finding.severity} {finding.name}", name), certainty)
        for part in [head, page.text(finding.message)]:
            folded = page.wrapped(part, width - 2)
            lines += [Text.assemble(Text(f"{page.glyphs.callout} ", name), line) for line in folded]
    return lines
