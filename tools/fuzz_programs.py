"""Fuzz the verifiers of programs: ``python tools/fuzz_programs.py [--seconds 600] [--seed 0]``.

Batches of responses of which it is known what they deserve (:mod:`program_responses`) go through a pool, while its
processes are killed now and then. A finding is a verdict that is not the known one, that shows another response's
program, or that took too long; the whole fuzzer ends with a traceback of where it is where the pool hangs. Findings go,
one a file, to tests/corpus/programs, which tests/verify/test_verify_escapes.py replays. The last line says what was
done; the exit status is 1 where something was found.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from program_responses import VERIFIERS, Case, Verifiers, case

from outrider.record import Outcome, Verdict
from outrider.verify.pool import VerifierPool
from outrider.verify.verifiers import VERIFIERS as NAMED

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "programs"
BATCH = 40
LONGEST = 120.0  # seconds of one verdict, on a machine that is busy
HANGS = 900.0  # seconds without the end of a batch


def keep(one: Case, verdict: Verdict, why: str) -> None:
    """One finding as a file whose name is its hash."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    kind, reference = one.problem.answer
    name = next(name for name, made in NAMED.items() if type(VERIFIERS[kind]) is made)
    found = {
        "verifier": {name: VERIFIERS[kind].model_dump()},
        "reference": reference,
        "text": one.text,
        "finished": one.finished,
        "allowed": sorted(outcome.value for outcome in one.allowed),
        "about": one.about,
        "found": why,
    }
    digest = hashlib.blake2b(json.dumps([kind, reference, one.text]).encode(), digest_size=6).hexdigest()
    (CORPUS / f"{digest}.json").write_text(json.dumps(found, indent=1) + "\n")
    print("found", digest, why, "|", one.about, "|", verdict.outcome.value, verdict.detail[:200], flush=True)


def wrong_about(one: Case, verdict: Verdict) -> str:
    """What a verdict should not be; empty where it is right."""
    if verdict.outcome not in one.allowed:
        return f"{verdict.outcome.value} instead of {' or '.join(sorted(o.value for o in one.allowed))}"
    if one.mark and one.mark not in verdict.answer:
        return "the verdict of another response"
    if (verdict.score == 1.0) != verdict.success or not 0.0 <= verdict.score <= 1.0:
        return f"a score of {verdict.score}"
    return f"{verdict.seconds:.0f} s for a verdict" if verdict.seconds > LONGEST else ""


class Killer:
    """Now and then a process of the pool is killed, as by a machine without memory."""

    def __init__(self, pool: VerifierPool, random: Random) -> None:
        self.pool, self.random = pool, random
        self.templates = self.workers = 0

    def strike(self) -> None:
        """Maybe, and some time from now."""
        chance = self.random.random()
        if chance < 0.15:
            self._later(self._kill_template)
        elif chance < 0.25:
            self._later(self._kill_worker)

    def _later(self, kill: Callable[[], None]) -> None:
        timer = threading.Timer(self.random.uniform(0.0, 3.0), kill)
        timer.daemon = True
        timer.start()

    def _kill_template(self) -> None:
        if (template := self.pool._template) is not None and not template.dead:
            os.kill(template.process.pid, signal.SIGKILL)
            self.templates += 1

    def _kill_worker(self) -> None:
        for worker in self.pool._workers[:1]:
            if worker.usable:
                os.kill(worker.pid, signal.SIGKILL)
                self.workers += 1


def fuzz(seconds: float, seed: int) -> int:
    """Verifier until the time is over; print what was done, and return how many findings there are."""
    random = Random(seed)
    outcomes: Counter[str] = Counter()
    findings = verified = late = killed = 0
    begun = time.monotonic()
    with VerifierPool(Verifiers(), workers=2, seconds=60, memory_gb=1) as pool:
        killer = Killer(pool, Random(seed))
        while time.monotonic() - begun < seconds:
            faulthandler.dump_traceback_later(HANGS, exit=True)
            batch = [case(random, verified + i + 1) for i in range(BATCH)]
            before = killer.workers
            killer.strike()
            verdicts = pool.verify([(one.problem, one.text, one.finished) for one in batch])
            may_be_lost = killer.workers - before
            for one, verdict in zip(batch, verdicts, strict=True):
                verified += 1
                outcomes[verdict.outcome.value] += 1
                if one.waits and verdict.outcome is Outcome.TIMEOUT:
                    late += 1
                elif may_be_lost and verdict.detail == "the worker died, with status -9":
                    may_be_lost -= 1
                    killed += 1
                elif why := wrong_about(one, verdict):
                    findings += 1
                    keep(one, verdict, why)
    faulthandler.cancel_dump_traceback_later()
    counts = ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
    kills = f"{killer.templates} templates and {killer.workers} workers killed, which cost {killed} verdicts"
    print(
        f"verified {verified:,} responses in {time.monotonic() - begun:.0f} s with seed {seed}: {findings} findings "
        f"({counts}; {kills}; {late} of those that wait were late on a busy machine)"
    )
    return findings


def main() -> int:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for verifier in VERIFIERS.values():
        verifier.prepare()  # says at once where no sandbox can be made
    return 1 if fuzz(arguments.seconds, arguments.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
