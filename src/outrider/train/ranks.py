"""The processes of a run. One process is the special case in which nothing is sent anywhere."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

_WAIT = datetime.timedelta(hours=2)  # rank 0 may verify or write for long while the others wait


class Ranks:
    """This process's place among all, and the few collectives that the loop uses, each in a fixed order."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    @staticmethod
    def join() -> Ranks:
        """The ranks of the environment that a launcher set (torchrun's variables); one rank where none did."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return Ranks()
        dist.init_process_group("gloo", timeout=_WAIT)
        return Ranks(dist.get_rank(), size)

    @staticmethod
    def meet(rank: int, size: int, meeting: str) -> Ranks:
        """The ranks of one machine, which find each other through a file (``meeting``, a ``file://`` address)."""
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host name that resolves to nothing must not matter
        dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size, timeout=_WAIT)
        return Ranks(rank, size)

    def leave(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()

    @property
    def main(self) -> bool:
        return self.rank == 0

    def from_main(self, make: Callable[[], T]) -> T:
        """What rank 0 made, on every rank. Only rank 0 calls ``make``; its exception is raised everywhere."""
        if self.size == 1:
            return make()
        box: list[Any] = [None, None]
        if self.main:
            try:
                box[0] = make()
            except Exception as error:
                dist.broadcast_object_list([None, error], src=0)
                raise
        dist.broadcast_object_list(box, src=0)
        if box[1] is not None:
            raise box[1]
        result: T = box[0]
        return result

    def gather(self, make: Callable[[], Sequence[T]]) -> list[T]:
        """The parts that all ranks make, in rank order, on every rank. If a rank fails, all raise its exception."""
        if self.size == 1:
            return list(make())
        mine: tuple[list[T], BaseException | None]
        try:
            mine = list(make()), None
        except Exception as error:  # noqa: BLE001 - raised below, on every rank
            mine = [], error
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, mine)
        for _, failure in parts:
            if failure is not None:
                raise failure
        return [item for items, _ in parts for item in items]

    def sum_(self, tensor: torch.Tensor) -> torch.Tensor:
        """Add a tensor over ranks, in place, in rank order on every rank."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor
