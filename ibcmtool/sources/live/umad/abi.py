"""The ABI of ib_umad, version 5 (Linux: include/uapi/rdma/ib_user_mad.h, drivers/infiniband/core/user_mad.c)."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from typing import NamedTuple

from dissectors.recognition import CM_CLASS, CM_CLASS_VERSION, GSI_QPN, MAD_SIZE

ABI_VERSION = 5

METHOD_SEND = 3
LARGEST = 4096  # bytes of one read; MADs of the class have 256, and a header in front

_MAGIC = 0x1B
# id, mask of methods, QP, class and its version, OUI, RMPP version
_agent = struct.Struct("=I4I3B3sBx")
_REGISTER_AGENT = 3 << 30 | _agent.size << 16 | _MAGIC << 8 | 1  # _IOWR
_ENABLE_PKEY = _MAGIC << 8 | 3  # _IO

# id, status, timeout, retries, length; QP, Q_Key; LID; SL, path bits, GRH present, GID index, hop limit, class; GID,
# flow label. With P_Keys enabled there are eight bytes more, without which the offsets are the same.
_header = struct.Struct("=5I")
_address = struct.Struct("!2IH6B16sI")


class Received(NamedTuple):
    """A MAD, and where it came from."""

    status: int
    lid: int  # of the sender; 0 on Ethernet
    path_bits: int  # of our LID
    gid: bytes | None  # of the sender, where there was a GRH
    gid_index: int | None  # of our GID, where there was a GRH
    mad: bytes


def open_port(path: str) -> int:
    """A file descriptor of /dev/infiniband/umadN. Raises OSError.

    By the C library's `open`, which also goes to the simulated ports of umad2sim; os.open calls another function.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.open(path.encode(), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(fd)


def register(fd: int) -> None:
    """Ask for the MADs of the class CommMgt that are sent to this port. Raises OSError: EINVAL when they are taken."""
    fcntl.ioctl(fd, _ENABLE_PKEY, 0)
    agent = bytearray(_agent.pack(0, 1 << METHOD_SEND, 0, 0, 0, GSI_QPN, CM_CLASS, CM_CLASS_VERSION, b"", 0))
    fcntl.ioctl(fd, _REGISTER_AGENT, agent, True)


def receive(fd: int) -> Received:
    """The next MAD. Raises OSError where there is none, and when the port has gone."""
    data = os.read(fd, LARGEST)
    if len(data) < _header.size + _address.size + MAD_SIZE:
        raise OSError(errno.EIO, f"{len(data)} bytes are no MAD")
    status = _header.unpack_from(data)[1]
    _, _, lid, _, path_bits, grh, gid_index, _, _, gid, _ = _address.unpack_from(data, _header.size)
    mad = data[-MAD_SIZE:]  # the header has 56 or 64 bytes
    return Received(status, lid, path_bits, gid if grh else None, gid_index if grh else None, mad)
