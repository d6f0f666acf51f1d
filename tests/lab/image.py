"""The disk, kernel and initrd that the machines of the lab boot: Debian packages, nothing else. Built once, as root."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

GUEST = Path(__file__).parent / "guest"
SUITE = "bookworm"
HOST_PACKAGES = ("qemu-system-x86", "qemu-utils", "debootstrap", "busybox-static", "cpio", "e2fsprogs", "kmod")
GUEST_PACKAGES = (
    "kmod", "iproute2", "tcpdump", "rdma-core", "rdmacm-utils", "ibverbs-providers", "python3", "procps", "nftables",
    "nvme-cli",
)  # fmt: skip
DISK_SIZE = "2G"
INITRD_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")  # what it takes to mount the disk

INITRD_SCRIPT = """#!/bin/busybox sh
for place in proc sysfs devtmpfs; do /bin/busybox mount -t $place $place /$place; done
for module in /modules/*; do /bin/busybox insmod $module; done
until [ -b /devtmpfs/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /devtmpfs/vda /disk && exec /bin/busybox switch_root /disk /init
"""


class Image:
    """Where the parts lie. `build` makes those that are missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk.img"
        self.kernel = folder / "vmlinuz"
        self.initrd = folder / "initrd.gz"

    def build(self) -> None:
        """Minutes the first time; nothing to do afterwards, unless the guest's own files have changed."""
        newest = max(path.stat().st_mtime for path in (*GUEST.iterdir(), Path(__file__)))
        if self.disk.exists() and self.disk.stat().st_mtime > newest:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        _install_host_packages()
        root = self.folder / "root"
        if not (root / "usr/bin/nvme").exists() and not (root / "usr/sbin/nvme").exists():
            shutil.rmtree(root, ignore_errors=True)
            packages = ",".join(GUEST_PACKAGES)
            _run("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, root, _mirror())
        modules = self._unpack_kernel(root)
        shutil.copy(GUEST / "agent.py", root / "agent.py")
        shutil.copy(GUEST / "init", root / "init")
        (root / "init").chmod(0o755)
        self._make_initrd(modules)
        fresh = self.disk.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        _run("truncate", "-s", DISK_SIZE, fresh)
        _run("mkfs.ext4", "-q", "-d", root, fresh)
        fresh.replace(self.disk)

    def _unpack_kernel(self, root: Path) -> Path:
        """Debian's current kernel for this suite; returns the folder of its modules."""
        found = list((root / "lib/modules").glob("*/modules.dep"))
        if found and self.kernel.exists():
            return found[0].parent
        depends = _output("apt-cache", "depends", "linux-image-amd64")
        package = re.search(r"Depends: (linux-image-\S+)", depends)
        assert package is not None, depends
        download = self.folder / "download"
        shutil.rmtree(download, ignore_errors=True)
        download.mkdir()
        _run("apt-get", "download", "-q", package[1], cwd=download)
        [archive] = download.glob("*.deb")
        _run("dpkg-deb", "-x", archive, download)
        [version] = [path.name for path in (download / "lib/modules").iterdir()]
        shutil.copy(download / "boot" / f"vmlinuz-{version}", self.kernel)
        modules = root / "lib/modules" / version
        shutil.copytree(download / "lib/modules" / version, modules, dirs_exist_ok=True)
        _run("depmod", "-b", root, version)
        shutil.rmtree(download)
        return modules

    def _make_initrd(self, modules: Path) -> None:
        content = self.folder / "initrd"
        shutil.rmtree(content, ignore_errors=True)
        for name in ("bin", "modules", "proc", "sysfs", "devtmpfs", "disk"):
            (content / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", content / "bin/busybox")
        for index, path in enumerate(_with_dependencies(modules, INITRD_MODULES)):
            shutil.copy(path, content / "modules" / f"{index:02}-{path.name}")
        (content / "init").write_text(INITRD_SCRIPT)
        (content / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(content)) for path in sorted(content.rglob("*")))
        packed = subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"],
            cwd=content,
            input=names.encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
        self.initrd.write_bytes(gzip.compress(packed.stdout))


def _with_dependencies(modules: Path, names: tuple[str, ...]) -> list[Path]:
    """Module files in an order in which each can be loaded; what is built into the kernel has none."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    by_name = {Path(path).name.partition(".")[0].replace("-", "_"): path for path in needs}
    order: dict[str, None] = {}

    def add(path: str) -> None:
        for other in needs[path]:
            add(other)
        order.setdefault(path)

    for name in names:
        if name in by_name:
            add(by_name[name])
    return [modules / path for path in order]


def _install_host_packages() -> None:
    tools = ("qemu-system-x86_64", "qemu-img", "debootstrap", "busybox", "cpio", "mkfs.ext4", "depmod")
    if all(shutil.which(tool) for tool in tools):
        return
    _run("apt-get", "update", "-qq")
    _run("apt-get", "install", "-qq", "-y", "--no-install-recommends", *HOST_PACKAGES)


def _mirror() -> str:
    """The mirror that this machine's apt uses, too."""
    for name in ("sources.list.d/debian.sources", "sources.list"):
        path = Path("/etc/apt") / name
        found = (
            re.search(r"^(?:URIs:|deb)\s+(?:\[.*?\]\s*)?(\S+)", path.read_text(), re.MULTILINE)
            if path.exists()
            else None
        )
        if found is not None:
            return found[1]
    raise RuntimeError("this machine's apt names no mirror of Debian")


def _run(*command: object, cwd: Path | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed ({done.returncode}):\n{done.stdout[-3000:]}")


def _output(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
