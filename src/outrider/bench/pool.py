"""Execute several runs in parallel, each in its own process on its own core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from outrider.bench.cell import Cell
from outrider.bench.child import PRELOAD, run_cell
from outrider.bench.outlook import Outlook
from outrider.errors import UserError
from outrider.measure.evaluation import Evaluation
from outrider.processes.warm import warm_processes, without_main
from outrider.runs.folder import RunFolder
from outrider.screen.progress import Progress

_LOOK_SECONDS = 1.0
_LEAVE_SECONDS = 60.0


class Failure(NamedTuple):
    """A run that failed.

    Attributes:
        cell: the run.
        status: exit status of the run's process; -n if signal n ended the process.
        last_line: last line that the process printed.
    """

    cell: Cell
    status: int
    last_line: str

    def sentence(self) -> str:
        """Return a sentence that reports the failure and names the log file."""
        ended = f"signal {-self.status}" if self.status < 0 else f"status {self.status}"
        return f"{self.cell.label} failed ({ended}): {self.last_line or 'it printed nothing'} [{self.cell.log}]"


@dataclass(slots=True)
class _Running:
    cell: Cell
    core: int
    process: BaseProcess


def run_cells(cells: Sequence[Cell], cores: Sequence[int], name: str, following: Sequence[Cell] = ()) -> list[Failure]:
    """Execute all unfinished runs in parallel, one per core, and return the failures.

    A run that was started earlier resumes from its last checkpoint. A failed run does not stop the other runs. Each run
    in ``following`` evaluates the policy of another run. It starts once the other run has finished, and takes
    precedence over all waiting runs. An interrupted bench therefore has the evaluations of all finished runs. On an
    interrupt (Ctrl-C), the runs save their state, and the interrupt is raised after all runs have ended.
    """
    finished = [cell for cell in cells if cell.finished]
    waiting = [cell for cell in cells if cell not in finished]
    outlook = Outlook(cells, len(cores))
    for cell in finished:
        outlook.end(cell)
    units = {cell.unit for cell in cells if cell.budget} or {"runs"}
    progress = Progress(int(outlook.total), units.pop())
    progress.resume_at(int(outlook.done))
    free, running, failures = list(cores), list[_Running](), list[Failure]()
    next_of = {cell.measures: cell for cell in following}

    def follow(ended: Sequence[Cell]) -> None:
        follows = [next_of[cell] for cell in ended if cell in next_of and not next_of[cell].finished]
        waiting[:0] = follows
        outlook.add(follows)

    follow(finished)
    at_once = min(len(cores), len(waiting))
    with progress:
        progress.phase(name)
        if finished:
            progress.say(f"{len(finished)} of {len(cells)} runs are finished already")
        try:
            while waiting or running:
                while waiting and free:
                    running.append(_start(waiting.pop(0), free.pop(0), at_once))
                wait([r.process.sentinel for r in running], timeout=_LOOK_SECONDS)
                for r in [r for r in running if r.process.exitcode is not None]:
                    running.remove(r)
                    free.append(r.core)
                    outlook.end(r.cell, failed=bool(r.process.exitcode))
                    if r.process.exitcode:
                        failures.append(Failure(r.cell, r.process.exitcode, _last_line(r.cell)))
                        progress.say(failures[-1].sentence())
                    else:
                        progress.say(_finished_line(r.cell))
                        follow([r.cell])
                outlook.read([r.cell for r in running])
                _show(progress, outlook)
        finally:
            _stop(running)
    return failures


def _show(progress: Progress, outlook: Outlook) -> None:
    progress.recount(int(outlook.done), int(outlook.total))
    if (forecast := outlook.forecast()) is not None:
        progress.foresee(*forecast)


def _start(cell: Cell, core: int, at_once: int) -> _Running:
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    # a run that measures another run's policy starts again: its checkpoint has only the other run's path, which may
    # have changed
    arguments = (core, at_once, str(cell.recipe), cell.words, str(cell.path), str(cell.log), cell.measures is not None)
    process = warm_processes(*PRELOAD).Process(target=run_cell, args=arguments)
    with without_main():
        process.start()
    return _Running(cell, core, process)


def _stop(running: Sequence[_Running]) -> None:
    """Stop the unfinished runs after an interrupt or an error in the bench."""
    for r in running:
        r.process.terminate()  # SIGTERM: the runs save their state and end
    for r in running:
        r.process.join(_LEAVE_SECONDS)
        r.process.kill()


def _last_line(cell: Cell) -> str:
    try:
        lines = cell.log.read_text("utf-8", "replace").strip().splitlines()
    except FileNotFoundError:  # the process ended before it could write a line
        return ""
    except OSError as error:
        raise UserError(f"{cell.log} cannot be read: {error.strerror}") from error
    return lines[-1].strip() if lines else ""


def _finished_line(cell: Cell) -> str:
    """Return the line that is printed for a finished run."""
    folder = RunFolder(cell.path)
    overall = Evaluation.from_json(folder.evaluations()[max(folder.evaluations())]).overall
    rows = folder.metrics()
    shown = [f"pass@{k} {overall.pass_at[k].value:.3f}" for k in sorted({1, max(overall.pass_at)})]
    spent = [f"{rows[-1]['tokens']:,.0f} tokens in {len(rows)} steps"] if rows else []
    return f"{cell.label}: {', '.join([*shown, *spent])}"
