"""Steps of GRPO by TRL's trainer, for ``trl_step.py``: ``PYTHON benchmarks/_trl_step.py ARGUMENTS``, a JSON object.

Run by an interpreter that has TRL and Outrider; of Outrider it takes the problems and the verifier. The last line that
it prints is the result: seconds and generated tokens of each step after the warm ones.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from outrider.tasks.countdown import Countdown


class Steps(TrainerCallback):
    """Measures each step, from before its first response is sampled to after its update."""

    def __init__(self, problems: dict[str, Any]) -> None:
        self.problems, self.task = problems, Countdown()
        self.tokens, self.start = 0, 0.0
        self.seconds_S: list[float] = []
        self.tokens_S: list[int] = []

    def reward(self, prompts: list[str], completions: list[str], completion_ids: list[list[int]], **rest: Any):
        self.tokens += sum(map(len, completion_ids))
        asked = zip(prompts, completions, strict=True)
        return [float(self.task.verify(self.problems[prompt], text, finished=True).success) for prompt, text in asked]

    def on_step_begin(self, *state: Any, **more: Any) -> None:
        self.tokens, self.start = 0, time.perf_counter()

    def on_step_end(self, *state: Any, **more: Any) -> None:
        self.seconds_S.append(time.perf_counter() - self.start)
        self.tokens_S.append(self.tokens)


def main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    passes = asked["problems"] * asked["samples"] // asked["micro_batch"]
    made = list(map(Countdown().train, range(asked["problems"] * asked["steps"])))
    steps = Steps({problem.prompt: problem for problem in made})
    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out,
            max_steps=asked["steps"],
            per_device_train_batch_size=asked["micro_batch"],
            gradient_accumulation_steps=passes,
            steps_per_generation=passes,
            num_generations=asked["samples"],
            max_completion_length=asked["max_tokens"],
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            beta=0.0,
            loss_type="grpo",
            learning_rate=1e-4,
            bf16=False,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        prompts = Dataset.from_list([{"prompt": problem.prompt} for problem in made])
        GRPOTrainer(asked["model"], steps.reward, config, prompts, callbacks=[steps]).train()
    warm = asked["warm"]
    versions = {name: version(name) for name in ("trl", "transformers", "torch", "accelerate")}
    print(json.dumps({"seconds": steps.seconds_S[warm:], "tokens": steps.tokens_S[warm:], "versions": versions}))


if __name__ == "__main__":
    main()
