"""ib_cm's counters in sysfs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracing import TracingHost

from ibcmtool.sources.live.counters import Comparison, all_counters


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TracingHost:
    return TracingHost(tmp_path, monkeypatch)


def count(port: Path, group: str, message: str, number: int) -> None:
    (port / f"cm_{group}" / message).write_text(f"{number}\n")


def test_counters_of_all_ports(machine: TracingHost) -> None:
    one, two = machine.port("mlx5_0:1", "InfiniBand"), machine.port("mlx5_0:2", "InfiniBand")
    count(one, "rx_msgs", "req", 12)
    count(two, "tx_retries", "sidr_req", 3)
    found = {port.name: counts for port, counts in all_counters(machine.root).items()}
    assert list(found) == ["mlx5_0:1", "mlx5_0:2"]
    assert +found["mlx5_0:1"] == {("rx_msgs", "REQ"): 12}
    assert +found["mlx5_0:2"] == {("tx_retries", "SIDR_REQ"): 3}


def test_a_port_without_ib_cm(machine: TracingHost) -> None:
    port = machine.root / "sys/class/infiniband/irdma0/ports/1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text("Ethernet\n")
    assert all_counters(machine.root) == {}


def test_what_comes_at_the_very_beginning_or_end_may_be_in_either(machine: TracingHost) -> None:
    one, two = machine.port("mlx5_0:1", "InfiniBand"), machine.port("rxe0:1", "Ethernet")
    count(one, "rx_msgs", "req", 100)
    comparison = Comparison(machine.root)
    count(one, "rx_msgs", "req", 101)  # as the capture begins
    comparison.begin()
    count(one, "rx_msgs", "req", 105)
    count(two, "rx_msgs", "req", 3)
    comparison.end()
    count(two, "rx_msgs", "req", 5)  # as it ends
    comparison.end()
    for captured, agrees in ((6, False), (7, True), (10, True), (11, False)):
        comparison.captured["REQ"] = captured
        assert comparison.sentence().startswith("ib_cm counted as many") == agrees, captured


def test_nothing_counted_and_nothing_captured(machine: TracingHost) -> None:
    machine.port("mlx5_0:1", "InfiniBand")
    comparison = Comparison(machine.root)
    comparison.begin()
    comparison.end()
    assert comparison.sentence() == ""
