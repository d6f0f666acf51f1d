"""The lab: two virtual machines with Debian's kernel and soft RoCE, joined by one wire; real ib_cm, kprobes and umad.

Software emulation, Debian packages only, as root. State lies in $IBCMTOOL_LAB (default: ~/.cache/ibcmtool-lab).

    .venv/bin/python tests/lab/lab.py build
        makes the image, if it is not there yet
    .venv/bin/python tests/lab/lab.py up
        boots both machines and keeps them up until the end of stdin, or Ctrl-C; each line of stdin is a command:
        "1 COMMAND" is run by the shell of node 1, "2 COMMAND" by that of node 2
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)  # this folder is the package `lab`

from lab.image import Image
from lab.machine import CommandError, Machine, Wire, free_port

REPOSITORY = Path(__file__).resolve().parent.parent.parent
GUEST_PYTHON = "3.11"  # of Debian 12
UNPACK = "tar -C /tmp -xf /share/tree.tar"  # what a machine needs for the next two
PYTHON = "env PYTHONPATH=/tmp/tree:/tmp/site python3"
IBCMTOOL = f"{PYTHON} -m ibcmtool"


class Lab:
    """Both machines, up; a context manager."""

    def __init__(self) -> None:
        home = os.environ.get("IBCMTOOL_LAB")
        self.folder = Path(home) if home else Path.home() / ".cache" / "ibcmtool-lab"
        self.share = self.folder / "share"
        self.share.mkdir(parents=True, exist_ok=True)
        self.image = Image(self.folder)
        wire = Wire(free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_DGRAM))
        self.one = Machine(1, self.image, self.share, wire)
        self.two = Machine(2, self.image, self.share, Wire(wire.there, wire.here))

    def __enter__(self) -> Lab:
        self.image.build()
        try:
            for machine in (self.one, self.two):
                machine.power_on()
            self._pack()
            for machine in (self.one, self.two):
                machine.wait()
            self.one.run(UNPACK, seconds=120)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for machine in (self.one, self.two):
            machine.power_off()

    def _pack(self) -> None:
        """Our tree and what it needs, compiled, as one file: many small ones are slow to read for a machine."""
        stage = self.folder / "stage"
        shutil.rmtree(stage / "tree", ignore_errors=True)
        for package in ("ibcmtool", "dissectors"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(REPOSITORY / package, stage / "tree" / package, ignore=ignored)
        needed = [one for one in requires("ibcmtool") or () if "extra ==" not in one and not one.startswith("pyshark")]
        mark = stage / "site" / "needed.txt"
        if not mark.exists() or mark.read_text() != "\n".join(needed):
            shutil.rmtree(stage / "site", ignore_errors=True)
            options = ["-q", "--disable-pip-version-check", "--root-user-action=ignore", "--only-binary=:all:"]
            target = ["--target", stage / "site", "--python-version", GUEST_PYTHON]
            subprocess.run([sys.executable, "-m", "pip", "install", *options, *target, *needed], check=True)
            mark.write_text("\n".join(needed))
        # Bytecode of another version is passed over.
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", stage],
            stdout=subprocess.DEVNULL,
        )
        subprocess.run(["tar", "-C", stage, "-cf", self.share / "tree.tar", "tree", "site"], check=True)


def main() -> None:
    match sys.argv[1:]:
        case ["build"]:
            Lab().image.build()
        case ["up"]:
            with Lab() as lab:
                print("up", flush=True)
                for line in sys.stdin:
                    number, _, command = line.strip().partition(" ")
                    try:
                        print((lab.one if number == "1" else lab.two).run(command, code=None), flush=True)
                    except CommandError as error:
                        print(error, flush=True)
        case _:
            print(__doc__)


if __name__ == "__main__":
    main()
