"""The extcap protocol: Wireshark and tshark list us among their interfaces and capture from us.

Wireshark runs the programs in its extcap folders, asks for their interfaces, link types and options, and then for a
capture into a named pipe (extcap(4) of Wireshark). `ibcmtool wireshark install` puts a script that calls `main` there.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

from ibcmtool import __version__
from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live import SOURCES, source_of, usage
from ibcmtool.wire.links.ethernet import ETHERNET

INTERFACE = "ibcmtool"
DISPLAY = "ibcmtool: kernel CM MADs"
WAIT = 0.1  # seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one call of Wireshark's. Returns the exit code; errors are one line on stderr, which Wireshark shows."""
    parser = argparse.ArgumentParser(prog="ibcmtool-extcap", description=DISPLAY)
    parser.add_argument("--extcap-interfaces", action="store_true", help="list the interfaces")
    parser.add_argument("--extcap-interface", metavar="NAME", default="")
    parser.add_argument("--extcap-dlts", action="store_true", help="list the link types of the interface")
    parser.add_argument("--extcap-config", action="store_true", help="list the options of the interface")
    parser.add_argument("--extcap-version", metavar="VERSION", nargs="?", const="")
    parser.add_argument("--extcap-capture-filter", metavar="FILTER", default="")
    parser.add_argument("--capture", action="store_true", help="capture into --fifo")
    parser.add_argument("--fifo", metavar="PATH", default="")
    parser.add_argument("--source", default="kernel", help="any SOURCE of ibcmtool live")
    parser.add_argument("--policy", choices=("relaxed", "strict"), default="relaxed")
    options = parser.parse_args(arguments)
    if options.extcap_interfaces:
        print(f"extcap {{version={__version__}}}{{display=ibcmtool}}")
        print(f"interface {{value={INTERFACE}}}{{display={DISPLAY}}}")
        return 0
    if options.extcap_interface != INTERFACE:
        print(f"ibcmtool-extcap: no interface {options.extcap_interface!r}; there is {INTERFACE}", file=sys.stderr)
        return 1
    if options.extcap_dlts:
        # What comes is pcapng and names the link types itself, also ERF for InfiniBand.
        print(f"dlt {{number={ETHERNET.number}}}{{name=EN10MB}}{{display=RoCE, or InfiniBand in ERF records}}")
        return 0
    if options.extcap_config:
        named = usage(source for source, kind in SOURCES.items() if kind.extcap)
        print(
            f"arg {{number=0}}{{call=--source}}{{display=Source}}{{type=string}}{{default=kernel}}{{tooltip={named}}}"
        )
        print("arg {number=1}{call=--policy}{display=Reading of the specification}{type=selector}")
        print("value {arg=1}{value=relaxed}{display=relaxed (Linux since 2.6.19)}{default=true}")
        print("value {arg=1}{value=strict}{display=strict}{default=false}")
        return 0
    if not options.capture or not options.fifo:
        print("ibcmtool-extcap: nothing to do: Wireshark calls this program", file=sys.stderr)
        return 1
    try:
        _capture(options.source, options.policy, options.fifo)
    except SourceError as error:
        print(f"ibcmtool: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        pass  # Wireshark has what it wanted
    return 0


def _capture(name: str, policy: str, fifo: str) -> None:
    """Everything that comes, with its findings, into the pipe, until Wireshark has enough."""
    from ibcmtool.engine.live import Session
    from ibcmtool.reports.recording import Recording, Rotation
    from ibcmtool.sources.live.reading import Reading

    asked = []

    def end(_number: int, _frame: FrameType | None) -> None:
        asked.append(True)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    source = source_of(name)
    session = Session([source], "strict" if policy == "strict" else "relaxed")
    with Reading([source], session.watched) as reading:
        session.engine.sink = recording = Recording(fifo, Rotation(), session.sources)
        recording.refresh(None)  # Wireshark waits for the beginning of the file
        ticked = time.monotonic()
        while not asked:
            batch = reading.next(WAIT)
            if batch is not None:
                session.take(batch.source, batch.frames)
            if time.monotonic() - ticked > WAIT:
                ticked = time.monotonic()
                session.pass_time()
            if batch is None:
                recording.refresh(None)
            elif batch.ended:
                if batch.error is not None:
                    raise batch.error
                break
        for note in source.notes:
            print(f"ibcmtool: {note}", file=sys.stderr)
        recording.close()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the source's thread may still wait for its end
