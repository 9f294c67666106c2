"""The processes of a run. With one process nothing is sent."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from outrider.errors import UserError
from outrider.train.cores import usable_cores

T = TypeVar("T")

_WAIT = datetime.timedelta(hours=2)  # the others wait while rank 0 verifies or writes, which may take long
LOST = 75  # exit status of a rank that ends because another one is gone
_END_SECONDS = 10.0  # from the end of a rank's connections to that of its process, which first frees its memory


class RankLostError(UserError):
    """Another rank is gone; its text is one sentence that names it."""


class Ranks:
    """The rank of this process, and the few collective operations of the loop, each in a fixed order.

    Args:
        rank, size: from 0, and how many.
        ended: how each of the others ended so far, for the process that has started them: ``{rank: exit code}``.

    Attributes:
        cores: how many all ranks of this machine share, also where this one is pinned to a single core.

    Raises:
        RankLostError: in each collective, when another rank has died.
    """

    def __init__(self, rank: int = 0, size: int = 1, ended: Callable[[], dict[int, int]] | None = None) -> None:
        self.rank, self.size = rank, size
        self.cores = len(usable_cores())
        self._ended = ended
        self._processes: list[Any] = []  # machine and process of each rank, where a launcher has started them

    @staticmethod
    def join() -> Ranks:
        """The ranks of the environment that a launcher set (torchrun's variables); one rank where none did."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return Ranks()
        dist.init_process_group(_backend(int(os.environ.get("LOCAL_WORLD_SIZE", "1"))), timeout=_WAIT)
        ranks = Ranks(dist.get_rank(), size)
        ranks._processes = ranks.gather(lambda: [(platform.node(), os.getpid())])
        return ranks

    @staticmethod
    def meet(rank: int, size: int, meeting: str, ended: Callable[[], dict[int, int]] | None = None) -> Ranks:
        """The ranks of one machine, which connect through a file (``meeting``, a ``file://`` address)."""
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # works where the host name does not resolve
        backend = _backend(size)
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=size, timeout=_WAIT)
        return Ranks(rank, size, ended)

    def leave(self) -> None:
        if dist.is_initialized():  # by a sharded model, where there is one process
            dist.destroy_process_group()

    @contextmanager
    def _linked(self) -> Iterator[None]:
        """A collective operation in which gloo's error about a connection becomes a sentence about a rank."""
        try:
            yield
        except RuntimeError as error:
            raise RankLostError(self._who_is_lost() or f"the link between the ranks broke ({error})") from error

    def _who_is_lost(self) -> str:
        """Which rank has died, and how; empty where none is known to be dead."""
        # connections close before the process has ended, so its death shows a little later
        end = time.monotonic() + _END_SECONDS
        while (self._ended or self._processes) and time.monotonic() < end:
            if self._ended is not None:
                lost = {
                    rank: f"rank {rank} {how_it_ended(code)}" for rank, code in self._ended().items() if code != LOST
                }
            else:
                here = [(rank, pid) for rank, (node, pid) in enumerate(self._processes) if node == platform.node()]
                lost = {rank: f"rank {rank} died" for rank, pid in here if not _lives(pid)}
            if lost:
                return lost[min(lost)]
            time.sleep(0.05)
        far = sorted({node for node, _ in self._processes if node != platform.node()})
        return f"a rank on {' or '.join(far)} died" if far else ""

    @property
    def main(self) -> bool:
        return self.rank == 0

    def from_main(self, make: Callable[[], T]) -> T:
        """The result of ``make`` on rank 0, sent to every rank; its exception is raised on every rank."""
        if self.size == 1:
            return make()
        box: list[Any] = [None, None]
        if self.main:
            try:
                box[0] = make()
            except Exception as error:
                with self._linked():
                    dist.broadcast_object_list([None, error], src=0)
                raise
        with self._linked():
            dist.broadcast_object_list(box, src=0)
        if box[1] is not None:
            raise box[1]
        result: T = box[0]
        return result

    def gather(self, make: Callable[[], Sequence[T]]) -> list[T]:
        """The results of all ranks, in rank order, on every rank. If a rank fails, all raise its exception."""
        if self.size == 1:
            return list(make())
        mine: tuple[list[T], BaseException | None]
        try:
            mine = list(make()), None
        except Exception as error:  # noqa: BLE001 - raised below, on every rank
            mine = [], error  # sent like a result: a rank that raised here would leave the others waiting
        parts: list[Any] = [None] * self.size
        with self._linked():
            dist.all_gather_object(parts, mine)
        for _, failure in parts:
            if failure is not None:
                raise failure
        return [item for items, _ in parts for item in items]

    def refuse_unseen(self, folder: Path) -> None:
        """Raise UserError on all ranks where one does not see a folder that all read or write."""
        blind = [rank for rank, sees in enumerate(self.gather(lambda: [folder.is_dir()])) if not sees]
        if blind:
            raise UserError(
                f"ranks {blind} do not see {folder}; the folder of the run has to be on a disk that all share"
            )

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """Add a tensor over ranks, in place, in rank order on every rank."""
        if self.size > 1:
            with self._linked():
                dist.all_reduce(tensor)
        return tensor


def _backend(local_size: int) -> str:
    """What carries tensors; on GPUs this process takes its own, which NCCL wants to know first.

    Raises:
        UserError: this machine has fewer GPUs than ranks.
    """
    if not torch.cuda.is_available():
        return "gloo"
    if local_size > (there := torch.cuda.device_count()):
        raise UserError(f"{local_size} ranks on this machine need as many GPUs, and it has {there}")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return "cpu:gloo,cuda:nccl"


def how_it_ended(code: int) -> str:
    """An exit code in words.

    >>> how_it_ended(-9), how_it_ended(1)
    ('was killed by signal 9, as when memory runs out', 'ended with status 1')
    """
    if code >= 0:
        return f"ended with status {code}"
    return f"was killed by signal {-code}" + (", as when memory runs out" if code == -9 else "")


def _lives(pid: int) -> bool:
    """Whether a process of this machine runs, and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            # the state follows the command's name, which may itself hold spaces and brackets
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return not os.path.isdir("/proc/self")  # without /proc nothing is known, and no rank is called dead
