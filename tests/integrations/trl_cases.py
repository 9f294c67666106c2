"""Trainers of TRL, on scripted completions and on Countdown, and the advantages that Outrider's own groups have there.

``python tests/trl_cases.py FOLDER`` under torchrun is one step of two processes, for ``test_integrations_trl.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from outrider.config import Recipe
from outrider.credit import Link
from outrider.credit.assign import assign
from outrider.integrations.trl import CreditGRPOTrainer, grpo_config
from outrider.model.places import model_folder
from outrider.model.tiny import character_tokenizer
from outrider.record import Group, Problem, Rollout
from outrider.record.verdict import correct, incorrect
from outrider.tasks.countdown import Countdown
from small import random_model

EMPTY = np.zeros(0, np.int32)
TEMPERATURE = 0.7
END = 2  # the end token of the shipped base, and of models with its tokenizer


class Completion(NamedTuple):
    """One row of a generation batch; ``tool`` marks tokens that no policy sampled, a reward of None is unscorable."""

    prompt: list[int]
    ids: list[int]
    tool: list[bool]
    reward: float | None

    @property
    def key(self) -> tuple[int, ...]:
        return tuple(self.ids)


def drawn(seed: int, rows: int, right: float = 1.0, wrong: float = 0.0, unscorable: float = 0.15) -> list[Completion]:
    """Ragged completions with tool output in the middle; each is a text of its own, and some end by no end token."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        ids = rng.integers(3, 32, rng.integers(4, 13)).tolist()
        ids += [2] if rng.random() < 0.7 else []
        tool = np.zeros(len(ids), np.bool_)
        tool[1 : 1 + rng.integers(0, 3)] = True
        reward = None if rng.random() < unscorable else right if rng.random() < 0.5 else wrong
        found.append(Completion([1, *rng.integers(3, 13, 4).tolist()], ids, tool.tolist(), reward))
    return found


class Compared(CreditGRPOTrainer):
    """Keeps the largest difference of each generation batch's advantages from those of Outrider's own groups, and how
    many rows had any."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.differences, self.credited, self.read = [], [], {}
        super().__init__(*given, **named)

    def _policy_numbers(self, output: dict[str, Any]) -> dict[str, Any]:
        self.read = super()._policy_numbers(output)
        return self.read

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        lengths, rewards = output["completion_mask"].sum(1).tolist(), self._rewards_BF[:, 0].tolist()
        ids = [ids[:n] for ids, n in zip(output["completion_ids"].tolist(), lengths, strict=True)]
        rows = [Completion([], own, [False] * len(own), r) for own, r in zip(ids, rewards, strict=True)]
        step = self.state.global_step + 1
        expected = by_outrider(self._credit.links, rows, self.num_generations, self.read, step)
        given = output["advantages"].double().numpy()
        for row, expected_T in enumerate(expected):
            given[row, : len(expected_T)] -= expected_T  # behind its end a row has to be 0
        self.differences.append(float(np.abs(given).max()))
        self.credited.append(sum(bool(expected_T.any()) for expected_T in expected))
        return output


TASK = Countdown()


def solved(completions: list[str], completion_ids: list[list[int]], index: list[int], **rest: Any) -> list[float]:
    """Of TRL's form: 1 for a solution of the training problem with this index."""
    rows = zip(completions, completion_ids, index, strict=True)
    return [float(TASK.verify(TASK.train(i), text, finished=ids[-1] == END).success) for text, ids, i in rows]


def countdown(folder: Path, recipe: Recipe, steps: int, rows: int, **changes: Any) -> Compared:
    """A trainer of the shipped base with a recipe's method, on new problems in every step."""
    problems = [{"prompt": TASK.train(i).prompt, "index": i} for i in range(steps * rows // 8)]
    given = {"learning_rate": recipe.learn.lr, "lr_scheduler_type": "constant", "adam_beta2": recipe.learn.betas[1]}
    given |= {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 1, "max_steps": steps}
    given |= {"logging_steps": 1, "shuffle_dataset": False, **grpo_config(recipe), **changes}
    args = config(folder, **given)
    return Compared(model_folder(recipe.model), solved, args, rows_to_read(problems), recipe=recipe)


class Scripted(CreditGRPOTrainer):
    """Takes its completions from ``script``, a list for each generation batch, and keeps what the loss is given, as
    well as the policy's numbers that the chain has read."""

    def __init__(self, script: Sequence[Sequence[Completion]], args: Any, **options: Any) -> None:
        self.script, self.seen, self.read = list(script), [], {}
        model, tokenizer = random_model("qwen2"), character_tokenizer()
        dataset = rows_to_read([{"prompt": f"{i}>"} for i in range(64)])
        options = {"rollout_func": self._next, "processing_class": tokenizer, **options}
        super().__init__(model, value, args, dataset, **options)

    @staticmethod
    def _next(prompts: list[str], trainer: Scripted) -> dict[str, Any]:
        rows = trainer.script.pop(0)
        assert len(rows) == len(prompts)
        return {
            "prompt_ids": [row.prompt for row in rows],
            "completion_ids": [row.ids for row in rows],
            "logprobs": None,
            "env_mask": [[int(not tool) for tool in row.tool] for row in rows],
            "reward": [row.reward for row in rows],
        }

    def _policy_numbers(self, output: dict[str, Any]) -> dict[str, Any]:
        self.read = super()._policy_numbers(output)
        return self.read

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        advantages = inputs["advantages"].float().numpy()
        self.seen += list(zip(inputs["completion_ids"].tolist(), advantages, strict=True))
        return super()._compute_loss(model, inputs)


def value(reward: list[float | None], **rest: Any) -> list[float | None]:
    return reward


def rows_to_read(rows: list[dict[str, Any]]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(rows)


def config(folder: Path, **changes: Any) -> Any:
    """12 rows in groups of 4, which are shuffled and cut in two micro-batches of one optimizer step."""
    from trl import GRPOConfig

    given = {
        "per_device_train_batch_size": 6,
        "gradient_accumulation_steps": 2,
        "num_generations": 4,
        "max_completion_length": 16,
        "temperature": TEMPERATURE,
        "max_steps": 1,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    return GRPOConfig(str(folder), **(given | changes))


def by_outrider(
    chain: Sequence[Link],
    rows: Sequence[Completion],
    size: int = 4,
    read: Mapping[str, Any] | None = None,
    step: int = 1,
    success_from: float = 1.0,
) -> list[NDArray[np.float64]]:
    """One advantage for each token of each row, of the credit of a training step on Outrider's own groups. ``read``
    has what the chain reads of the policy, ``[B, T]``."""
    groups = []
    for begin in range(0, len(rows), size):
        problem = Problem(f"p{begin}", "")
        members = [
            rollout(problem, member, row, numbers_of(begin + member, row, read or {}), success_from)
            for member, row in enumerate(rows[begin : begin + size])
        ]
        groups.append(Group(problem, problem.id, tuple(members)))
    credited = assign(groups, {"main": chain}, step, True, lambda problem: EMPTY).rows
    trained = iter(credited)  # a row for each rollout with a trainable token, in order
    return [np.zeros(len(row.ids)) if all(row.tool) else next(trained).advantages_N for row in rows]


def numbers_of(index: int, row: Completion, read: Mapping[str, Any]) -> dict[str, NDArray[np.float32]]:
    return {name: np.asarray(values_BT[index][: len(row.ids)]) for name, values_BT in read.items()}


def rollout(
    problem: Problem, member: int, row: Completion, numbers: Mapping[str, NDArray], success_from: float
) -> Rollout:
    return Rollout(
        problem_id=problem.id,
        group_id=problem.id,
        member=member,
        prompt_ids=np.array(row.prompt, np.int32),
        token_ids=np.array(row.ids, np.int32),
        logprobs_T=numbers.get("logprobs", np.zeros(len(row.ids), np.float32)),
        prefix_ids=EMPTY,
        entropies_T=numbers.get("entropies"),
        trainable_T=~np.array(row.tool),
        verdict=correct() if row.reward is not None and row.reward >= success_from else incorrect(),
        reward=np.nan if row.reward is None else row.reward,
    )


def policy_numbers(row: Completion) -> dict[str, NDArray[np.float32]]:
    """Log-probabilities and entropies of a row's tokens, by transformers, one row at a time."""
    with torch.no_grad():
        logits = random_model("qwen2")(torch.tensor([row.prompt + row.ids])).logits[0, len(row.prompt) - 1 : -1]
    logprobs_TV = (logits / TEMPERATURE).double().log_softmax(-1)
    own = logprobs_TV.gather(1, torch.tensor(row.ids)[:, None])[:, 0]
    entropies = -(logprobs_TV.exp() * logprobs_TV).sum(-1)
    return {"logprobs": own.float().numpy(), "entropies": entropies.float().numpy()}


def largest_difference(
    seen: Sequence[tuple[list[int], NDArray]], rows: Sequence[Completion], expected: Sequence[NDArray]
) -> float:
    """Between the advantages that the loss was given, in any order, and the expected ones; every row once."""
    found = {tuple(token for token in ids if token): advantages_T for ids, advantages_T in seen}
    assert len(seen) == len(rows) == len(found)
    worst = 0.0
    for row, expected_T in zip(rows, expected, strict=True):
        padded = np.zeros(len(found[row.key]))
        padded[: len(expected_T)] = expected_T
        worst = max(worst, float(np.abs(found[row.key] - padded).max()))
    return worst


CHAIN_OF_TWO: list[Any] = ["reinforce_pp", "novelty"]  # whose batch is that of both processes
ROWS_OF_ONE = 6


def main(folder: Path) -> None:
    args = config(folder, gradient_accumulation_steps=1)
    rank = args.process_index
    trainer = Scripted([drawn(rank, ROWS_OF_ONE)], args, chain=CHAIN_OF_TWO)
    trainer.train()
    logged = list(trainer._logs["advantages"])
    torch.save({"seen": trainer.seen, "read": trainer.read, "logged": logged}, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
