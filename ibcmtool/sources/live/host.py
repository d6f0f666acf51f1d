"""The machine that live sources look at."""

from __future__ import annotations

import os
from pathlib import Path


class Host:
    """root: where its file system begins; uid: who asks; release: as of uname -r (tests have their own)."""

    def __init__(self, root: Path = Path("/"), uid: int | None = None, release: str | None = None) -> None:
        self.root = root
        self.uid = os.geteuid() if uid is None else uid
        self.release = os.uname().release if release is None else release
