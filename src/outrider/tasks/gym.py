"""A task for any dataset of the package reasoning-gym. The dataset's scorer verifies responses."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, PrivateAttr, field_validator

from outrider.errors import UserError, nearest
from outrider.record import Outcome, Problem, Verdict, identity_seed, unparseable
from outrider.tasks.heldout import by_hash
from outrider.tasks.task import Task
from outrider.verify.thinking import UNCLOSED, answer_of

if TYPE_CHECKING:  # not imported at run time, since a recipe may name the task without using it
    from outrider.verify.pool import Item, VerifierPool

log = logging.getLogger(__name__)

BLOCK = 256  # items per dataset object: creating a dataset can take a second, and some generate all items at once
BLOCKS_KEPT = 8
ATTEMPTS = 50  # maximum draws for one problem; if all of them fail or are held out, the dataset counts as exhausted
PROBES = 4  # number of questions compared to check that two processes generate the same problems


class Gym(Task):
    """Problems of one reasoning-gym dataset, which are generated on demand. The training stream is endless.

    Training problem ``index`` depends only on ``index`` and the seed. The held-out problems are ``heldout_size``
    distinct questions from a separate stream. A training problem is replaced by another random problem if its question
    is held out, or if the dataset fails to generate it. ``counts`` reports the number of replaced problems.

    A response with score 1 is correct. Any other response is incorrect, and its score is recorded. The scorers are
    third-party code, and some call ``eval`` on the answer. Scorers run in worker processes with limits on time and
    memory, but not in a sandbox. ``close`` ends these processes.

    Raises:
        UserError: the package is not installed, the dataset or one of its options is unknown, or the dataset rejects an
            option's value. The error is also raised if there are too few distinct questions, or if the questions depend
            on Python's hash seed and this seed is not fixed.
    """

    dataset: str = Field(min_length=1, description="name of the reasoning-gym dataset that generates the problems")
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="settings for the reasoning-gym dataset, by name; seed and size cannot be set here",
    )
    prompt: str = Field(
        "{question}\n",
        description="template of the prompt, in which {question} stands for the question that the dataset generates",
    )
    answer: Literal["tag", "whole"] = Field(
        "tag",
        description=(
            "part of the response that is verified: the text in the last <answer>…</answer> (tag), or the whole "
            "response (whole)"
        ),
    )
    heldout_size: int = Field(
        300, ge=1, description="number of different held-out questions to generate for evaluation"
    )
    seed: int = Field(
        0, ge=0, description="random seed of the training problems; the held-out problems are the same for every seed"
    )
    seconds: float = Field(5.0, gt=0, description="wall-clock limit in seconds for verifying one response")
    workers: int = Field(1, ge=1, description="number of processes in which responses are verified in parallel")

    _redrawn: int = PrivateAttr(0)
    _blocks: dict[int, Any] = PrivateAttr(default_factory=dict)

    @field_validator("prompt")
    @classmethod
    def _prompt_shows_the_question(cls, prompt: str) -> str:
        if "{question}" not in prompt:
            raise ValueError("without {question} it is the same for every problem")
        return prompt

    @property
    def name(self) -> str:
        return f"gym/{self.dataset}"

    @cached_property
    def fingerprint(self) -> str:
        """Identity of the data: a hash of the held-out problems, the first training problems, the configuration and the
        version of reasoning-gym."""
        from importlib.metadata import version  # imported here, since the import is slow

        shown = [p.prompt for p in self._heldout.values()] + [self.train(index).prompt for index in range(PROBES)]
        text = json.dumps([version("reasoning-gym"), self.config, self.seed, shown])
        return f"{self.name}/{_hash(text)}"

    @property
    def counts(self) -> dict[str, int]:
        """Number of held-out problems, and number of training problems that have been redrawn so far. A training
        problem is redrawn if it is held out or could not be generated."""
        return {"heldout": len(self._heldout), "redrawn": self._redrawn}

    def train(self, index: int) -> Problem:
        for attempt in range(ATTEMPTS):
            entry = self._draw(identity_seed(self.seed, "train", attempt), index)
            if entry is not None and entry["question"] not in self._heldout:
                return self._problem(entry)
            self._redrawn += 1
        raise UserError(
            f"reasoning-gym {self.dataset}: {ATTEMPTS} draws in a row failed or were held out; a dataset with so few "
            f"different questions needs a smaller heldout_size (now {self.heldout_size}) or a wider config"
        )

    def heldout(self, n: int) -> list[Problem]:
        return list(self._heldout.values())[:n]

    def right(self, problem: Problem) -> str | None:
        """Return a correct response with the dataset's answer. Return None if the dataset has no answer for this
        problem, because many answers are correct."""
        answer = problem.answer["answer"]
        if answer is None:
            return None
        return f"<answer>{answer}</answer>" if self.answer == "tag" else str(answer)

    def verify(self, problem: Problem, text: str, finished: bool) -> Verdict:
        return self.verify_all([(problem, text, finished)])[0]

    def verify_all(self, items: Sequence[Item]) -> list[Verdict]:
        """Verify items in parallel, and return one verdict per item. The first call starts the worker processes."""
        return self._pool.verify(items)

    def close(self) -> None:
        """End the worker processes. The next call that verifies a response starts new processes."""
        if pool := self.__dict__.pop("_pool", None):
            pool.close()

    @cached_property
    def _pool(self) -> VerifierPool:
        from outrider.verify.pool import VerifierPool

        return VerifierPool(Scorer(self.dataset, self.config, self.answer), self.workers, self.seconds)

    def _block(self, seed: int) -> Any:
        """Return the dataset object for a seed. The last few objects are cached."""
        if seed not in self._blocks:
            if len(self._blocks) == BLOCKS_KEPT:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[seed] = make_dataset(self.dataset, self.config, seed)
        return self._blocks[seed]

    @cached_property
    def _heldout(self) -> dict[str, Problem]:
        """The held-out problems by question.

        There are fewer than ``heldout_size`` problems if ``10 * heldout_size`` draws do not yield enough distinct
        questions.
        """
        found = self._drawn()
        return {question: found[question] for question in by_hash(found)}  # since draws find common ones first

    def _drawn(self) -> dict[str, Problem]:
        heldout: dict[str, Problem] = {}
        for index in range(10 * self.heldout_size):
            entry = self._draw(identity_seed("heldout"), index)
            if entry is not None:
                heldout.setdefault(entry["question"], self._problem(entry))
            if len(heldout) == self.heldout_size:
                return heldout
        return heldout

    def _draw(self, stream: int, index: int) -> dict[str, Any] | None:
        """Return one item of the dataset, or None if the package fails to generate the item."""
        block, place = divmod(index, BLOCK)
        dataset = self._block(identity_seed(stream, block) % 2**31)  # seed + item index must fit into 32 bits
        state = np.random.get_state()  # noqa: NPY002 - some datasets seed the global generator
        try:
            return dict(dataset[place])
        except Exception as error:  # noqa: BLE001 - third-party generators may fail; the caller counts failures
            log.debug("reasoning-gym %s: item %d of stream %d failed: %r", self.dataset, index, stream, error)
            self._blocks.clear()  # some datasets shrink after a failure, which must not affect later items
            return None
        finally:
            np.random.set_state(state)  # noqa: NPY002

    def _problem(self, entry: dict[str, Any]) -> Problem:
        question = entry["question"]
        prompt = self.prompt.replace("{question}", question)
        return Problem(f"{self.dataset}:{_hash(question)}", prompt, answer=entry)


class Scorer:
    """Verifies responses with the dataset's ``score_answer``. Unpickling creates a new dataset in the worker process.

    Raises:
        UserError: the worker process and the run's process generate different questions.
    """

    def __init__(self, dataset: str, config: dict[str, Any], answer: str, questions: str | None = None) -> None:
        self._dataset = make_dataset(dataset, config, seed=0)
        probe = _hash(json.dumps([self._dataset[i]["question"] for i in range(PROBES)]))
        if questions not in (None, probe):
            raise UserError(
                f"the questions of reasoning-gym {dataset} depend on Python's hash seed and would differ from run to "
                "run; fix it with PYTHONHASHSEED=0 in the environment"
            )
        self._answer = answer
        self._remake = (Scorer, (dataset, config, answer, probe))

    def __reduce__(self) -> tuple[type[Scorer], tuple[Any, ...]]:
        return self._remake

    def __call__(self, problem: Problem, text: str, finished: bool) -> Verdict:
        said = answer_of(text, problem)
        if said is None:
            return unparseable(UNCLOSED)
        text = said
        answer = text.strip() if finished else ""
        if self._answer == "tag":
            end = text.rfind("</answer>")
            start = text.rfind("<answer>", 0, max(end, 0))
            answer = text[start + len("<answer>") : end].strip() if start >= 0 else ""
        if not answer:
            return unparseable("no answer" if finished else "truncated before an answer")
        score = float(self._dataset.score_answer(answer, problem.answer))
        if not 0 <= score <= 1:
            raise ValueError(f"the scorer returned {score}, which is not between 0 and 1")
        return Verdict(Outcome.CORRECT if score == 1 else Outcome.INCORRECT, score, answer=answer[:200])


def make_dataset(name: str, config: dict[str, Any], seed: int) -> Any:
    """Create a reasoning-gym dataset with ``BLOCK`` items.

    Raises:
        UserError: the dataset or an option is unknown, or the dataset rejects an option's value.
    """
    try:
        from reasoning_gym.factory import DATASETS, create_dataset
    except ImportError as error:
        raise UserError("the task gym needs the package reasoning-gym: pip install 'outrider[gym]'") from error
    if name not in DATASETS:
        raise UserError(f"reasoning-gym has no dataset {name!r} ({nearest(name, DATASETS)})")
    known = {field.name for field in fields(DATASETS[name][1])} - {"seed", "size"}
    for key in config:
        if key not in known:
            raise UserError(f"the reasoning-gym dataset {name} has no option {key!r} ({nearest(key, known)})")
    try:
        return create_dataset(name, **config, seed=seed, size=BLOCK)
    except Exception as error:
        raise UserError(
            f"the reasoning-gym dataset {name} refuses its config: {type(error).__name__}: {error}"
        ) from error


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
