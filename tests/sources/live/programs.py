"""Programs of the tests of live sources, and how their output is taken."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from typing import Any

PATIENCE = 20.0  # seconds until a test gives up waiting for what must come


def told(process: subprocess.Popen[str], events: int) -> list[dict[str, Any]]:
    """The JSON lines of `ibcmtool live` until there are so many events, and after a signal the rest."""
    assert process.stdout is not None
    objects = []
    limit = threading.Timer(2 * PATIENCE, process.kill)
    limit.start()
    for line in process.stdout:
        objects.append(json.loads(line))
        if objects[-1]["kind"] == "event":
            events -= 1
            if not events:
                process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)
    limit.cancel()
    return objects
