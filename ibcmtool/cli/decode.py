"""`ibcmtool decode`: CM messages one by one, or one frame in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ibcmtool.cli.options import ColorOption, FileArgument, LocalOption, RedactOption, format_option
from ibcmtool.cli.output import make_sink, settings_of, warn, warn_of_inputs
from ibcmtool.engine.sink import Received
from ibcmtool.messages import PAIRED, Req
from ibcmtool.packets import CmMessage, DataPacket, Frame
from ibcmtool.reports.sink import Sink

if TYPE_CHECKING:
    from dissectors.private_data import Protocol

Decoded = Iterator[tuple[Frame, CmMessage | DataPacket | None]]


def decode(
    file: FileArgument,
    frame: Annotated[
        int | None,
        typer.Option("--frame", "-n", min=1, metavar="N", help="All fields of this frame, from the link layer down."),
    ] = None,
    show_hex: Annotated[
        bool, typer.Option("--hex", "-x", help="With --frame: the place and the bytes of each field.")
    ] = False,
    output_format: Annotated[str, format_option("decode", "decode --frame")] = "text",
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

    from ibcmtool.sources.files import ScanRequest, open_capture
    from ibcmtool.wire.decode import Decoder

    # Standard input may be a live capture: there each line is written at once.
    settings = settings_of(color, local, at_once=str(file) == "-", show_hex=show_hex)
    with open_capture(str(file), 0) as capture:
        frames = iter(capture) if frame is not None else capture.scan(ScanRequest())
        if redact:
            from ibcmtool.redaction import Redactor

            frames = map(Redactor(), frames)
        decoder = Decoder()
        decoded = ((one, decoder(one)) for one in frames)
        with make_sink("decode" if frame is None else "decode --frame", output_format, settings) as sink:
            found = _write_messages(decoded, sink) if frame is None else _write_frame(decoded, frame, sink)
    damaged = warn_of_inputs([capture.info])
    raise typer.Exit(2 if damaged or not found else 0)


def _write_messages(decoded: Decoded, sink: Sink) -> bool:
    """All of them; True."""
    count = 0
    for frame, message in decoded:
        if isinstance(message, CmMessage):
            count += 1
            sink.received(Received(frame.number, frame, message))
    if not count:
        warn("no CM messages")
    return True


def _write_frame(decoded: Decoded, number: int, sink: Sink) -> bool:
    """The frame in full; False, and a line on stderr, where it is no CM message."""
    from ibcmtool.wire import detail

    requests: dict[int | None, Req] = {}
    last = 0
    for frame, message in decoded:
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
        sink.layers(Received(number, frame, message), layers)
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
