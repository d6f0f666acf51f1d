"""What a host offers: yes or no, the reason, and what to type, for hosts of several kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracing import TracingHost

from ibcmtool.sources.live import SOURCES, name_of, offers
from ibcmtool.sources.live.host import Host
from ibcmtool.sources.live.interface import offers as interfaces
from ibcmtool.sources.live.source import Offer
from ibcmtool.wire.bpf import TYPED


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TracingHost]:
    monkeypatch.setattr(interfaces, "sniffs_rdma", lambda _: False)
    monkeypatch.setattr(interfaces, "_may_capture", lambda: True)
    made = TracingHost(tmp_path, monkeypatch)
    yield made
    made.close()


def adapter(machine: TracingHost, name: str, driver: str) -> None:
    """A device of hardware, with its driver."""
    place = machine.root / "sys/class/infiniband" / name / "device"
    place.mkdir()
    (machine.root / "sys/drivers" / driver).mkdir(parents=True)
    (place / "driver").symlink_to(machine.root / "sys/drivers" / driver)


def net_device(port: Path, name: str) -> None:
    (port / "gid_attrs/ndevs").mkdir(parents=True)
    (port / "gid_attrs/ndevs/0").write_text(f"{name}\n")


def offered(machine: TracingHost) -> dict[str, Offer]:
    return {offer.source: offer for offer in offers.offers(machine.host)}


def test_soft_roce(machine: TracingHost) -> None:
    net_device(machine.port("rxe0:1", "Ethernet"), "eth7")
    found = offered(machine)
    assert found["kernel"].available
    assert found["kernel"].command == "ibcmtool live kernel"
    assert "a table for Linux 6.1" in found["kernel"].reason
    assert found["umad:rxe0:1"] == Offer(
        "umad:rxe0:1",
        False,
        "ib_cm owns the CM messages of this port",
        "use ibcmtool live kernel, or ibcmtool live iface:eth7, or ibcmtool counters (numbers only)",
    )
    assert found["iface:eth7"] == Offer("iface:eth7", True, "what rxe0 sends and receives", "ibcmtool live iface:eth7")
    assert found["counters"] == Offer("counters", True, "numbers of messages on rxe0:1", "ibcmtool counters --watch")


def test_an_adapter_for_ethernet(machine: TracingHost) -> None:
    """It shows its interface nothing, and this libpcap cannot ask it."""
    net_device(machine.port("mlx5_0:1", "Ethernet"), "ens1")
    adapter(machine, "mlx5_0", "mlx5_core")
    found = offered(machine)
    assert not found["iface:ens1"].available
    assert found["iface:ens1"].reason == "mlx5_0 takes its packets off the wire unseen by the host"
    assert "ibcmtool live kernel" in found["iface:ens1"].command
    assert found["iface:mlx5_0"].reason == "libpcap was built without RDMA support"
    assert not found["ibdump mlx5_0:1"].available


def test_a_libpcap_that_can_sniff(machine: TracingHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "sniffs_rdma", lambda _: True)
    for name, driver in (("mlx5_0", "mlx5_core"), ("irdma0", "irdma")):
        machine.port(f"{name}:1", "Ethernet")
        adapter(machine, name, driver)
    found = offered(machine)
    assert found["iface:mlx5_0"].available
    assert found["iface:irdma0"].reason == "the driver of irdma0 lets libpcap see no packets"


def test_infiniband_without_ib_cm(machine: TracingHost, monkeypatch: pytest.MonkeyPatch) -> None:
    port = machine.port("mlx5_0:1", "InfiniBand", lid="0x3")
    for group in ("rx_msgs", "rx_duplicates", "tx_msgs", "tx_retries"):
        for path in (port / f"cm_{group}").iterdir():
            path.unlink()
        (port / f"cm_{group}").rmdir()
    (machine.root / "sys/module/ib_cm").rmdir()
    found = offered(machine)
    assert found["kernel"] == Offer(
        "kernel", False, "ib_cm is not loaded, so no connection is managed here", "run modprobe ib_cm"
    )
    assert found["umad:mlx5_0:1"] == Offer("umad:mlx5_0:1", False, "ib_umad is not loaded", "run modprobe ib_umad")
    assert not found["counters"].available
    umad = machine.root / "sys/class/infiniband_mad/umad0"
    umad.mkdir(parents=True)
    (umad / "ibdev").write_text("mlx5_0\n")
    (umad / "port").write_text("1\n")
    (machine.root / "dev/infiniband").mkdir(parents=True)
    (machine.root / "dev/infiniband/umad0").touch()
    assert offered(machine)["umad:mlx5_0:1"].available
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused = offered(machine)["umad:mlx5_0:1"]
    assert refused.reason.endswith("umad0 may not be opened by this user")
    assert refused.command == "run sudo ibcmtool live umad:mlx5_0:1"


def test_no_rdma_device_and_no_privileges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError("libpcap.so.1: cannot open shared object file")

    monkeypatch.setattr("ibcmtool.sources.live.libpcap._library", missing)
    found = {offer.source: offer for offer in offers.offers(Host(tmp_path, uid=1000))}
    assert found["kernel"] == Offer("kernel", False, "only root may trace the kernel", "run sudo ibcmtool live kernel")
    assert found["umad"] == Offer("umad", False, "no RDMA device is here", "")
    assert found["iface:NAME"].reason == "libpcap is not installed"
    assert not any(found[source].available for source in ("kernel", "umad", "iface:NAME", "counters"))
    assert all(found[source].available for source in ("-", "follow:FILE", "replay:FILE"))
    assert TYPED in found["-"].command


def test_interfaces_without_privileges(machine: TracingHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "_may_capture", lambda: False)
    net_device(machine.port("rxe0:1", "Ethernet"), "eth7")
    assert offered(machine)["iface:eth7"] == Offer(
        "iface:eth7", False, "capturing needs CAP_NET_RAW", "run sudo ibcmtool live iface:eth7"
    )


def test_looking_changes_nothing(machine: TracingHost) -> None:
    machine.port("rxe0:1", "Ethernet")
    before = sorted((path, path.stat().st_mtime_ns) for path in machine.root.rglob("*"))
    offered(machine)
    assert sorted((path, path.stat().st_mtime_ns) for path in machine.root.rglob("*")) == before


def test_the_offers_are_those_that_work(machine: TracingHost) -> None:
    """Each kind that `live` knows is among them."""
    machine.port("rxe0:1", "Ethernet")
    assert {source.partition(":")[0] for source in offered(machine)} >= {name_of(source) for source in SOURCES}
