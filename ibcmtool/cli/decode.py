"""`ibcmtool decode`: CM messages one by one, or one frame in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ibcmtool.cli.options import ColorOption, FileArgument, Format, FormatOption, LocalOption, RedactOption
from ibcmtool.cli.output import make_console, warn, warn_of_inputs
from ibcmtool.messages import PAIRED, Req
from ibcmtool.model import CmMessage, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dissectors.private_data import Protocol
    from ibcmtool.reports.clock import Clock
    from ibcmtool.reports.page import Page


def decode(
    file: FileArgument,
    frame: Annotated[
        int | None,
        typer.Option("--frame", "-n", min=1, metavar="N", help="All fields of this frame, from the link layer down."),
    ] = None,
    show_hex: Annotated[
        bool, typer.Option("--hex", "-x", help="With --frame: the place and the bytes of each field.")
    ] = False,
    output_format: FormatOption = "text",
    color: ColorOption = "auto",
    local: LocalOption = False,
    redact: RedactOption = False,
) -> None:
    """CM messages, one line each; with --frame, one of them with all its fields.

    Frame numbers are Wireshark's. Exit code: 0, or 2 when the input could not be read, or not to its end, or when the
    frame is no CM message.
    """
    if show_hex and frame is None:
        raise typer.BadParameter("it needs --frame N", param_hint="--hex")

    from ibcmtool.reports.clock import Clock
    from ibcmtool.reports.page import Page
    from ibcmtool.sources.files import open_capture

    page = Page(make_console(color))
    clock = Clock("local" if local else "utc")
    with open_capture(str(file), 0) as capture:
        frames = _redacted(capture) if redact else iter(capture)
        if frame is None:
            found = True
            _write_messages(frames, page, clock, output_format, at_once=str(file) == "-")
        else:
            found = _write_frame(frames, frame, page, clock, output_format, show_hex)
    damaged = warn_of_inputs([capture.info])
    raise typer.Exit(2 if damaged or not found else 0)


def _redacted(frames: Iterable[Frame]) -> Iterator[Frame]:
    from ibcmtool.redaction import Redactor

    return map(Redactor(), frames)


def _write_messages(frames: Iterator[Frame], page: Page, clock: Clock, output_format: Format, *, at_once: bool) -> None:
    """One line per message; standard input may be a live capture, so there each line is written `at_once`."""
    from ibcmtool.reports import decode as report
    from ibcmtool.wire.decode import Decoder

    decoder = Decoder()
    objects = []
    count = 0
    for frame in frames:
        message = decoder(frame)
        if not isinstance(message, CmMessage):
            continue
        count += 1
        if output_format == "text":
            for line in report.message_lines(page, message, clock):
                page.write(line)
        elif output_format == "jsonl":
            print(json.dumps(report.message_object(message)), flush=at_once)
        else:
            objects.append(report.message_object(message))
        if at_once:
            page.flush()
    if output_format == "json":
        print(json.dumps(objects, indent=2))
    page.flush()
    if not count:
        warn("no CM messages")


def _write_frame(
    frames: Iterator[Frame], number: int, page: Page, clock: Clock, output_format: Format, show_hex: bool
) -> bool:
    """The frame in full; False, and a line on stderr, where it is no CM message."""
    from ibcmtool.reports import decode as report
    from ibcmtool.wire import detail
    from ibcmtool.wire.decode import Decoder

    decoder = Decoder()
    requests: dict[int | None, Req] = {}
    last = 0
    for frame in frames:
        message = decoder(frame)
        if isinstance(message, CmMessage) and isinstance(message.fields, Req):
            requests[message.fields.local_comm_id] = message.fields
        last = frame.number
        if last < number:
            continue
        packet = detail.dissect(frame)
        if not isinstance(message, CmMessage):
            warn(f"frame {number} is no CM message, but {packet.summary()}")
            return False
        layers = list(detail.layers(packet, _protocol(message, requests)))
        if output_format == "text":
            page.console.print(report.frame_tree(page, frame, message, layers, clock, show_hex=show_hex))
        else:
            indent = 2 if output_format == "json" else None
            print(json.dumps(report.frame_object(frame, message, layers), indent=indent))
        return True
    warn(f"there is no frame {number}: the capture has {last}")
    return False


def _protocol(message: CmMessage, requests: dict[int | None, Req]) -> Protocol | None:
    """The upper protocol of the REQ that a REP or REJ belongs to: only the REQ tells it."""
    from ibcmtool.wire import detail

    fields = message.fields
    ids = (fields.remote_comm_id, fields.local_comm_id) if isinstance(fields, PAIRED) else ()
    request = next((requests[number] for number in ids if number in requests), None)
    if request is None:
        return None
    return detail.request_protocol(request.service_id, request.private_data)
