"""The Typer app: one module per command. Nothing heavy is imported before a command runs.

Exit codes: 0 nothing at or above --fail-on; 1 findings at or above it (verify: differences); 2 usage, or an input
that could not be read, or not to its end; 130 interrupted. A reader that closes our stdout ends us by SIGPIPE, as it
ends any filter.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ibcmtool.cli.output import warn
from ibcmtool.cli.version import version_line

# In the order of --help. Each is the function of that name in the module of that name.
COMMANDS = ("analyze", "timeline", "live", "sources", "counters", "decode", "explain", "verify", "wireshark")


class Commands(TyperGroup):
    """Loads a command when it is called, and turns errors that a user can do something about into an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # their names are all that is asked for

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        if cmd_name not in COMMANDS:
            return None
        one = typer.Typer(rich_markup_mode="rich", add_completion=False)
        one.command(cmd_name)(getattr(import_module(f"ibcmtool.cli.{cmd_name}"), cmd_name))
        return get_command(one)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except OSError as error:  # inputs raise SourceError: this is our output
            warn(f"writing failed: {error.strerror or error}")
        except Exception as error:
            from ibcmtool.sources.files import SourceError

            if not isinstance(error, SourceError):
                raise
            warn(str(error))
        raise SystemExit(2)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(version_line())
        raise typer.Exit


@app.callback()
def _ibcmtool(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Read InfiniBand and RoCE captures: what happened to each RDMA connection, and who was wrong."""


def main() -> int:
    """Run the command line; returns the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a terminal without UTF-8 shows a question mark rather than a traceback
            reconfigure(errors="replace")
    try:
        app(prog_name="ibcmtool")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    return 0
