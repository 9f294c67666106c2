"""What memory there is: a machine's, a container's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.errors import UserError
from outrider.processes.devices import RUNS_AT_ONCE, find_devices, host_memory

GIB = 2**30
WHOLE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine(root: Path, groups: str, limits: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for place, limit in limits.items():
        file = root / "sys/fs/cgroup" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit + "\n")
    return root


LITTLE = str(WHOLE // 8)
V1 = "12:cpuset:/\n5:cpu,memory:/docker/a\n1:name=systemd:/docker/a\n"


@pytest.mark.parametrize(
    ("groups", "limits", "share"),
    [
        ("0::/\n", {}, 1),
        ("0::/\n", {"memory.max": "max"}, 1),
        ("0::/\n", {"memory.max": LITTLE}, 8),
        ("0::/user/run\n", {"user/run/memory.max": "max", "user/memory.max": LITTLE}, 8),  # of the group around it
        ("0::/user/run\n", {"user/run/memory.max": LITTLE, "memory.max": "max"}, 8),
        ("0::/../other\n", {"memory.max": LITTLE}, 8),  # a group outside of the container
        ("0::/user\n", {"memory.max": str(2 * WHOLE)}, 1),  # allowed more than there is
        (V1, {"memory/docker/a/memory.limit_in_bytes": LITTLE}, 8),
        (V1, {"memory/memory.limit_in_bytes": LITTLE}, 8),  # as a container sees its own
        (V1, {"memory/docker/a/memory.limit_in_bytes": "9223372036854771712"}, 1),
        (V1, {"cpuset/memory.limit_in_bytes": LITTLE}, 1),
        ("nothing of the kind\n", {}, 1),
    ],
)
def test_a_container_may_take_less_than_the_machine_has(
    tmp_path: Path, groups: str, limits: dict[str, str], share: int
) -> None:
    assert host_memory(machine(tmp_path, groups, limits)) == WHOLE // share


def test_without_control_groups_it_is_the_machine(tmp_path: Path) -> None:
    assert host_memory(tmp_path) == WHOLE


def test_without_a_gpu_the_host_is_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = find_devices()
    assert found is not None
    assert (found.number, found.host) == (1, True)
    assert 0 < found.size <= WHOLE


def test_runs_at_the_same_time_share_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv(RUNS_AT_ONCE, "3")
    assert find_devices() == (1, host_memory() // 3, "this machine for each of 3 runs", True)  # type: ignore[operator]


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", ""])
def test_a_number_of_runs_that_is_none_is_a_sentence(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(RUNS_AT_ONCE, given)
    with pytest.raises(UserError, match=rf"^OUTRIDER_RUNS_AT_ONCE is '{given}'; use a whole number from 1"):
        find_devices()


def test_the_smallest_of_several_gpus_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        def __init__(self, i: int) -> None:
            self.total_memory, self.name = (80 - 40 * i) * GIB, f"card {i}"

    monkeypatch.setattr("outrider.processes.devices.driver_there", lambda: True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.get_device_properties", Properties)
    assert find_devices() == (2, 40 * GIB, "card 1", False)
