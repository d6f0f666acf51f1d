"""The kernel that runs here: whether it can be asked, and what must be done first where it cannot."""

from __future__ import annotations

from pathlib import Path

from ibcmtool.sources.errors import SourceError
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.kernel.layout import Layout, UnknownLayoutError, layout
from ibcmtool.sources.live.ports import text_of

TRACING = ("sys/kernel/tracing", "sys/kernel/debug/tracing")  # where tracefs is mounted
OTHERS = "other ways to see CM messages: ibcmtool sources"


class TracedKernel:
    """The kernel of a host, before anything is set up in it."""

    def __init__(self, host: Host) -> None:
        self.root = host.root
        self.release = host.release
        self._uid = host.uid

    def tracefs(self, name: str = "kernel") -> Path:
        """The mount point of tracefs, with all that is needed in it. Raises SourceError."""
        if self._uid != 0:
            raise SourceError(name, "only root may trace the kernel", "run sudo ibcmtool live kernel")
        tracing = next((self.root / place for place in TRACING if _is_there(self.root / place / "trace_pipe")), None)
        if tracing is None:
            raise SourceError(name, "tracefs is not mounted", "run mount -t tracefs tracefs /sys/kernel/tracing")
        if not _is_there(tracing / "kprobe_events"):
            if self._locked_down():
                raise SourceError(name, "the kernel is locked down (confidentiality) and forbids probes", OTHERS)
            raise SourceError(name, "this kernel has no kprobe events (CONFIG_KPROBE_EVENTS)", OTHERS)
        counting = (self.root / "sys/class/infiniband").glob("*/ports/*/cm_rx_msgs")  # ib_cm may be built in
        if not (self.root / "sys/module/ib_cm").exists() and not any(counting):
            raise SourceError(name, "ib_cm is not loaded, so no connection is managed here", "run modprobe ib_cm")
        return tracing

    def layout(self, name: str = "kernel") -> Layout:
        """Where the kernel keeps what is fetched. Raises SourceError."""
        # ib_cm or ib_core may not be built with this kernel (a vendor's OFED): their structures may differ.
        taints = (text_of(self.root / "sys/module" / module / "taint") for module in ("ib_cm", "ib_core"))
        try:
            return layout(self.root / "sys/kernel/btf", self.release, changed=any("O" in taint for taint in taints))
        except UnknownLayoutError as error:
            raise SourceError(name, str(error), OTHERS) from None

    def refusal(self, name: str, error: OSError, doing: str) -> SourceError:
        """What stands behind an error of tracefs."""
        if isinstance(error, PermissionError):
            if self._locked_down():
                return SourceError(name, "the kernel is locked down (confidentiality) and forbids probes", OTHERS)
            return SourceError(
                name, f"{doing} is not permitted", "it needs CAP_SYS_ADMIN: run it outside the container"
            )
        if isinstance(error, FileNotFoundError):
            return SourceError(name, f"{doing}: the kernel has no such function", "ib_cm is not loaded: modprobe ib_cm")
        return SourceError(name, f"{doing} failed: {error.strerror or error}", OTHERS)

    def _locked_down(self) -> bool:
        return "[confidentiality]" in text_of(self.root / "sys/kernel/security/lockdown")


def _is_there(path: Path) -> bool:
    """What may not be looked at is not there."""
    try:
        return path.exists()
    except OSError:
        return False
