"""One analysis of files, from the options that commands share to the sink that writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibcmtool.cli.progress import reading
from ibcmtool.model import InputInfo, Policy, TimewaitModel
from ibcmtool.reports.sink import emit
from ibcmtool.views.filters import Filter, apply, apply_to_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ibcmtool.model import Connection, Finding
    from ibcmtool.reports.sink import Sink


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be analysed, and how."""

    paths: list[str]
    policy: Policy
    timewait_model: TimewaitModel
    clock_offsets: Mapping[str, int]
    redact: bool
    thorough: bool = False


def run(request: Request, chosen: Filter, sink: Sink, *, quiet: bool) -> list[InputInfo]:
    """Hand the chosen records to the sink, which stays open. Returns the inputs."""
    inputs: list[InputInfo] = []
    with reading(quiet or sink.at_once) as progress:
        for record in _records(request, chosen, progress):
            if isinstance(record, InputInfo):
                inputs.append(record)
            emit(record, sink)
    return inputs


def _records(
    request: Request, chosen: Filter, progress: Callable[[int], None] | None
) -> Iterable[InputInfo | Connection | Finding]:
    """A stream, unless the choice needs all findings first."""
    from ibcmtool.engine.files import analyze, stream

    given: dict[str, Any] = {
        "thorough": request.thorough,
        "clock_offsets": request.clock_offsets,
        "timewait_model": request.timewait_model,
        "redact": request.redact,
    }
    if not chosen.code:
        return apply_to_stream(chosen, stream(request.paths, request.policy, progress, **given))
    analysis = apply(chosen, analyze(request.paths, request.policy, progress, **given))
    return [*analysis.connections, *analysis.findings, *analysis.inputs]
