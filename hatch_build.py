"""The compiled wheel: mypyc makes extension modules of the hot rooms, from the same sources; both go into the wheel.

Only where it is asked for (scripts/wheels does), as it needs a C compiler and takes minutes. pyproject.toml says which
rooms. hatch-mypyc has the same purpose, but it builds in the source tree: pyproject.toml is away for as long as that
takes, and the extension modules stay beside the sources, where an editable install would import them ever after.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OPTIMIZATION = "2"  # level of the C compiler


class CompiledWheel(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the extension modules to the wheel and names the wheel after this Python and machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = TemporaryDirectory(prefix="ibcmtool-compiled-")
        work = Path(self._folder.name).resolve()
        for package in self.build_config.packages:
            shutil.copytree(Path(self.root, package), work / package)
        shutil.copy(Path(self.root, "pyproject.toml"), work)  # has the type checker's settings
        before = Path.cwd()
        os.chdir(work)  # mypyc names modules by their paths from here
        try:
            built = compile_rooms(self.config["rooms"], work / "built")
        finally:
            os.chdir(before)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(path): str(path.relative_to(work / "built")) for path in built})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()


def compile_rooms(rooms: Sequence[str], target: Path) -> list[Path]:
    """Compiles the modules of these folders and files, which are below the current folder; returns the libraries."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    class Build(build_ext):
        """Compiles on all processors; by itself setuptools compiles the C files of a library one after the other."""

        def build_extensions(self) -> None:
            one_by_one = self.compiler.compile

            def at_once(sources: list[str], **settings: Any) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    return [made for [made] in pool.map(lambda source: one_by_one([source], **settings), sources)]

            self.compiler.compile = at_once  # type: ignore[method-assign]
            super().build_extensions()

    modules = [str(module) for room in map(Path, rooms) for module in (sorted(room.rglob("*.py")) or [room])]
    # All in one library: a call from one module to another is a C call then.
    extensions = mypycify(modules, opt_level=OPTIMIZATION, debug_level="0", multi_file=True, target_dir="c")
    build = Build(Distribution({"ext_modules": extensions}))
    build.build_lib, build.build_temp, build.parallel = str(target), "objects", os.cpu_count()
    build.ensure_finalized()
    build.run()
    return [path for path in target.rglob("*") if path.is_file()]
