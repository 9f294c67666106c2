"""The ranks (processes) of a run and their collective operations. A run with one process sends no messages."""

from __future__ import annotations

import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from outrider.errors import UserError, portable
from outrider.processes.cores import usable_cores

T = TypeVar("T")

_WAIT = datetime.timedelta(hours=2)  # long, since all other ranks wait while rank 0 verifies or writes
LOST = 75  # exit status of a rank that ends because another rank has died
_END_SECONDS = 10.0  # maximum seconds between the end of a rank's connections and of its process, which frees memory


class RankLostError(UserError):
    """Raised if another rank has died. The message is one sentence that names the dead rank."""


class Ranks:
    """The rank of this process, and the few collective operations of the training loop.

    All ranks must call the collective operations in the same order.

    Args:
        rank: index of this rank, counted from 0.
        size: number of ranks.
        ended: function that returns, for each rank that has ended, a text such as "was killed". If None, this process
            did not start the other ranks.

    Attributes:
        cores: total number of cores for all ranks on this machine. The number does not change if this rank is pinned to
            one core.
        waits: True while this process is in a ``with`` block of :meth:`linked`.

    Raises:
        RankLostError: raised by every collective operation if another rank has died.
    """

    def __init__(self, rank: int = 0, size: int = 1, ended: Callable[[], dict[int, str]] | None = None) -> None:
        self.rank, self.size = rank, size
        self.cores = len(usable_cores())
        self.waits = False
        self._ended = ended
        self._group: dist.ProcessGroup | None = None  # None: the default group
        # the last error that is not to be propagated, since all other ranks have it already or cannot receive it
        self._told: BaseException | None = None
        self._processes: list[Any] = []  # machine and process of each rank, if another launcher has started them

    @staticmethod
    def join() -> Ranks:
        """Join the ranks that a launcher such as torchrun has started. The launcher describes these ranks in
        environment variables. If there is no launcher, return a single rank."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return Ranks()
        dist.init_process_group(_backend(int(os.environ.get("LOCAL_WORLD_SIZE", "1"))), timeout=_WAIT)
        ranks = Ranks(dist.get_rank(), size)
        ranks._processes = ranks.gather(lambda: [(platform.node(), os.getpid())])
        return ranks

    @staticmethod
    def meet(rank: int, size: int, meeting: str, ended: Callable[[], dict[int, str]] | None = None) -> Ranks:
        """Connect the ranks on one machine through a file whose ``file://`` address is ``meeting``."""
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # works even if the host name does not resolve
        backend = _backend(size)
        # Group names are numbered. If a group has failed in this process, its number is used up. The other processes
        # are newer and would use another name, so all processes would wait for two hours.
        if not dist.is_initialized():
            distributed_c10d._world.group_count = 0
        dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=size, timeout=_WAIT)
        return Ranks(rank, size, ended)

    def beside(self) -> Ranks:
        """Return the same ranks with separate connections, so that another thread can run collective operations on
        objects.

        Every rank must call this method. If there is only one rank, this object is returned.
        """
        if self.size == 1:
            return self
        other = Ranks(self.rank, self.size, self._ended)
        other.cores, other._processes = self.cores, self._processes
        other._group = dist.new_group(backend="gloo", timeout=_WAIT)
        return other

    def leave(self) -> None:
        if dist.is_initialized():  # true even for one process, if its model is sharded
            dist.destroy_process_group()

    @contextmanager
    def linked(self) -> Iterator[None]:
        """Context manager for code in which the GPUs of all ranks wait for each other.

        An error in this code cannot be sent to the other ranks, since they wait for the failed rank's GPU, not for a
        message. The error therefore ends the failed rank's process, so that the other ranks stop waiting.
        """
        before, self.waits = self.waits, True
        try:
            yield
        except Exception as error:
            self._told = error
            raise
        finally:
            self.waits = before

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Context manager that converts a connection error in a collective operation to an error that names the lost
        rank."""
        try:
            yield
        except RuntimeError as error:
            raise RankLostError(self._who_is_lost() or f"the link between the ranks broke ({error})") from error

    @contextmanager
    def naming_the_lost(self) -> Iterator[None]:
        """Context manager that converts connection errors to errors that name the lost rank. Other errors do not
        change."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _of_the_link(error):
                raise
            with self._sending():
                raise

    def lost(self) -> str:
        """Return a message that says which rank is dead and how it ended; empty if no rank is known to be dead."""
        if self._ended is not None:
            lost = {rank: f"rank {rank} {how}" for rank, how in self._ended().items()}
        else:
            here = [(rank, pid) for rank, (node, pid) in enumerate(self._processes) if node == platform.node()]
            lost = {rank: f"rank {rank} died" for rank, pid in here if not _lives(pid)}
        return lost[min(lost)] if lost else ""

    def _who_is_lost(self) -> str:
        """Return the message of :meth:`lost`, after waiting up to 10 seconds for a rank's process to end. The wait is
        needed because a dying rank's connections close before its process ends."""
        end = time.monotonic() + _END_SECONDS
        while (self._ended or self._processes) and time.monotonic() < end:
            if lost := self.lost():
                return lost
            time.sleep(0.05)
        far = sorted({node for node, _ in self._processes if node != platform.node()})
        return f"a rank on {' or '.join(far)} died" if far else ""

    @property
    def main(self) -> bool:
        return self.rank == 0

    def from_main(self, make: Callable[[], T]) -> T:
        """Call ``make`` on rank 0 and broadcast the result. If ``make`` fails, all ranks raise its exception."""
        if self.size == 1:
            return make()
        box = [self._agreed(make if self.main else lambda: None)]
        with self._sending():
            dist.broadcast_object_list(box, src=0, group=self._group)
        result: Any = box[0]
        return cast(T, result)

    def gather(self, make: Callable[[], Sequence[T]]) -> list[T]:
        """Call ``make`` on every rank, and return all items in rank order. If one rank fails, all ranks raise its
        exception."""
        if self.size == 1:
            return list(make())
        mine = self._agreed(lambda: list(make()))
        parts: list[Any] = [None] * self.size
        with self._sending():
            dist.all_gather_object(parts, mine, group=self._group)
        return [item for items in parts for item in items]

    def together(self, make: Callable[[], T]) -> T:
        """Call ``make`` on every rank and return this rank's result. If one rank fails, all ranks raise its exception.

        ``make`` may call collective operations. If a rank fails while other ranks wait in a collective operation, the
        collective operation raises the exception.
        """
        return make() if self.size == 1 else self._agreed(make)

    def _agreed(self, make: Callable[[], T]) -> T:
        """Return the result of ``make`` if no rank has failed. Otherwise, all ranks raise the exception of the failed
        rank with the lowest number.

        Every collective operation on objects calls this method first. If a rank fails between two collective
        operations, all other ranks therefore get the exception in their next collective operation.
        """
        failure: Exception | None = None
        made: list[T] = []
        try:
            made.append(make())
        except Exception as error:
            if self._is_told(error):
                raise
            failure = error
        first = torch.tensor(self.size if failure is None else self.rank)
        with self._sending():
            dist.all_reduce(first, dist.ReduceOp.MIN, group=self._group)
            if int(first) == self.size:
                return made[0]
            box = [portable(failure) if failure is not None and self.rank == first else None]
            dist.broadcast_object_list(box, src=int(first), group=self._group)
        self._told = failure if self.rank == first and failure is not None else box[0]
        assert self._told is not None
        raise self._told

    def _is_told(self, error: BaseException | None) -> bool:
        """Return True if the other ranks already have the exception (or its cause), or if a rank is lost and cannot
        receive it."""
        while error is not None:
            if error is self._told or isinstance(error, RankLostError):
                return True
            error = error.__cause__ or error.__context__
        return False

    def refuse_unseen(self, folder: Path) -> None:
        """Raise UserError on all ranks unless ``folder``, which all ranks read or write, is visible on every rank."""
        blind = [rank for rank, sees in enumerate(self.gather(lambda: [folder.is_dir()])) if not sees]
        if blind:
            raise UserError(
                f"ranks {blind} do not see {folder}; the folder of the run has to be on a disk that all share"
            )

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sum a tensor over ranks, in place, so that every rank has the sum."""
        if self.size > 1:
            with self._sending():
                dist.all_reduce(tensor, group=self._group)
        return tensor


def _backend(local_size: int) -> str:
    """Return the communication backend for tensors. On a machine with GPUs, also select this process's GPU for NCCL.

    Raises:
        UserError: this machine has fewer GPUs than ranks.
    """
    if not torch.cuda.is_available():
        return "gloo"
    if local_size > (there := torch.cuda.device_count()):
        raise UserError(f"{local_size} ranks on this machine need as many GPUs, and it has {there}")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return "cpu:gloo,cuda:nccl"


def _of_the_link(error: RuntimeError) -> bool:
    """Return whether an error is from gloo or NCCL.

    Gloo's errors have no type of their own, but their messages contain a path in gloo's source code.
    """
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


def _lives(pid: int) -> bool:
    """Return whether a process on this machine is running and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            # the state follows the command's name, which may contain spaces and brackets
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return not os.path.isdir("/proc/self")  # without /proc, the state is unknown, and no rank counts as dead
