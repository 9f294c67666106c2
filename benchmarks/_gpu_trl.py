"""A whole step of GRPO by TRL's trainer, for ``gpu.py``, with the same model, prompts, lengths and reward.

``PYTHON benchmarks/_gpu_trl.py ARGUMENTS``, a JSON object, by an interpreter that has trl; nothing of Outrider is
imported. The last line that it prints is the result. As in ours: weights in float32 and bfloat16 matmuls, one
optimizer step on what was drawn, micro-batches of the same rows, activations kept, no KL, the mean over responses of
the mean over tokens. By its default it corrects for vLLM's numerics too, with a learner's pass over all rollouts.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import torch
from _gpu_measure import begin, rate, versions
from _gpu_reward import half
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Steps(TrainerCallback):
    """Measures each step, from before its first prompt is drawn to after its update."""

    def __init__(self) -> None:
        self.tokens = self.rollouts = 0
        self.start = 0.0
        self.result: dict[str, Any] = {}

    def reward(self, completions: list[str], completion_ids: list[list[int]], **rest: Any) -> list[float]:
        self.tokens += sum(map(len, completion_ids))
        self.rollouts += len(completion_ids)
        return half(completions)

    def on_step_begin(self, *state: Any, **more: Any) -> None:
        self.tokens = self.rollouts = 0
        self.start = begin()

    def on_step_end(self, *state: Any, **more: Any) -> None:
        self.result = {**rate(self.tokens, self.start), "tokens": self.tokens, "rollouts": self.rollouts}


def main() -> None:
    asked = json.loads(sys.argv[1])
    there = torch.cuda.is_available()
    passes = asked["rows"] // asked["micro_batch"]
    with open(f"{asked['folder']}/train.jsonl") as lines:
        prompts = [{"prompt": json.loads(line)["problem"]} for line in lines]
    steps = Steps()
    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out,
            max_steps=2,  # the first warms up
            per_device_train_batch_size=asked["micro_batch"],
            gradient_accumulation_steps=passes,
            steps_per_generation=passes,
            num_generations=asked["samples"],
            max_completion_length=asked["response"],
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            beta=0.0,
            loss_type="grpo",
            learning_rate=1e-6,
            bf16=there,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "float32"},
            use_vllm=asked["vllm"],
            vllm_mode="colocate",
            vllm_gpu_memory_utilization=asked["memory"],
            vllm_max_model_length=2048,
            use_cpu=not there,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(asked["folder"], steps.reward, config, Dataset.from_list(prompts), callbacks=[steps])
        trainer.train()
    print(json.dumps({**steps.result, "vllm": asked["vllm"], "versions": versions()}))


if __name__ == "__main__":
    main()
