"""`ibcmtool wireshark`: us among Wireshark's interfaces."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from ibcmtool.cli.output import warn

SCRIPT = "ibcmtool-extcap"
FOLDER_LINES = ("Personal Extcap path:", "Extcap path:")  # older ones have only the second, which takes root


def wireshark(
    action: Annotated[
        Literal["install", "uninstall"],
        typer.Argument(
            show_default=False, help="install: as an interface of Wireshark and tshark; uninstall: no more."
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="The extcap folder; else the one that tshark names."),
    ] = None,
) -> None:
    """Let Wireshark list "ibcmtool: kernel CM MADs" among its interfaces and capture from it, findings as comments.

    Capturing from the kernel needs root, so Wireshark or dumpcap must run as root, or another source be chosen in the
    interface's options.
    """
    place = folder if folder is not None else _folder()
    script = place / SCRIPT
    if action == "uninstall":
        if not script.exists():
            warn(f"{script}: not installed")
            raise typer.Exit(2)
        script.unlink()
        print(f"removed {script}")
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ibcmtool.extcap "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    except OSError as error:
        warn(f"{script}: cannot be written: {error.strerror}; run it as root, or name another folder with --folder")
        raise typer.Exit(2) from None
    print(f"installed {script}")
    print('In Wireshark: the interface "ibcmtool: kernel CM MADs"; in a shell: tshark -i ibcmtool')


def _folder() -> Path:
    """Where tshark looks: in the user's own folder if it has one, else in the system's. Exits where none is known."""
    try:
        folders = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=False).stdout
    except OSError:
        warn("tshark is not installed, so its extcap folder is not known; name it with --folder")
        raise typer.Exit(2) from None
    for sign in FOLDER_LINES:
        for line in folders.splitlines():
            if line.startswith(sign):
                return Path(line.removeprefix(sign).strip())
    warn("tshark names no extcap folder; name it with --folder")
    raise typer.Exit(2)
