"""What the probes fetch: by a table where the kernel is known, and a refusal where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibcmtool.sources.live.kernel.layout import UnknownLayoutError, layout

WHOLE = {"mad": "+0(+32($arg3)):x64[32]", "grh": "+0(+24($arg3)):x64[5]"}


def test_a_kernel_that_was_measured(tmp_path: Path) -> None:
    """The same text as the BTF of Debian's 6.1 gives (in the lab)."""
    found = layout(tmp_path, "6.1.0-57-amd64", changed=False)
    assert found.origin == "a table for Linux 6.1"
    assert dict(found.receive) == {
        **WHOLE,
        "flags": "+44(+0($arg3)):x32",
        "slid": "+40(+0($arg3)):x32",
        "path": "+51(+0($arg3)):x8",
        "port": "+72($arg1):x8",
        "device": "+1048(+0($arg1)):string",
    }
    assert dict(found.send) == {
        "cls": "+1(+8($arg1)):u8",
        "mad": "+0(+8($arg1)):x64[32]",
        "id": "+32($arg1):x64",
        "dgid": "+200(+32($arg1)):x64[2]",
        "flags": "+232(+32($arg1)):x8",
        "dlid": "+240(+32($arg1)):x16",
        "attr": "+24(+24($arg1)):x64",
        "sgid": "+16(+24(+24($arg1))):x64[2]",
        "port": "+72(+16($arg1)):x8",
        "by": "+16(+16($arg1)):symbol",
        "device": "+1048(+0(+16($arg1))):string",
        "comm": "$comm",
    }
    assert found.send[-1] == ("comm", "$comm")  # it may hold anything, so it comes last


@pytest.mark.parametrize(("release", "changed"), [("5.14.0-570.el9.x86_64", False), ("6.1.0-57-amd64", True)])
def test_what_has_lasted(tmp_path: Path, release: str, changed: bool) -> None:
    """Of other kernels, and of a vendor's ib_core, only what has always been so is believed."""
    found = layout(tmp_path, release, changed=changed)
    assert dict(found.receive) == WHOLE
    assert [name for name, _ in found.send] == ["cls", "mad", "comm"]


@pytest.mark.parametrize("release", ["3.10.0-1160.el7.x86_64", "4.19.0", "7.0.0", "unknown"])
def test_an_unknown_kernel(tmp_path: Path, release: str) -> None:
    with pytest.raises(UnknownLayoutError, match=rf"{release} are not known: it has no BTF"):
        layout(tmp_path, release, changed=False)


def test_btf_that_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "vmlinux").write_bytes(bytes(100))
    with pytest.raises(UnknownLayoutError, match="its BTF does not tell"):
        layout(tmp_path, "7.0.0", changed=False)
    assert layout(tmp_path, "6.1.0", changed=False).origin == "a table for Linux 6.1"
