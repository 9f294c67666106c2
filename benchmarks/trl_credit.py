"""Does the shipped base learn inside TRL with a recipe's credit, and is that credit Outrider's own?

Thirty steps of ``CreditGRPOTrainer`` on new Countdown problems with each of two recipes, 256 completions a step. In
every step the advantages of all tokens are compared with those that Outrider's own groups have. Before and after,
pass@1 and pass@16 on the same 300 held-out problems, 16 samples each, with paired 95 % bootstrap intervals; ``tokens``
are those of prompts and completions. Needs TRL (``make environments`` makes an interpreter with it); a quarter of an
hour on two cores. Arguments: recipes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from _machine import keep

import outrider
from outrider.config import load_recipe
from outrider.measure.compare import compare
from outrider.measure.evaluation import Evaluation

RECIPES = ("grpo", "ppl")
STEPS, ROWS, SEED = 30, 256, 1
ENDS = 5  # steps whose rewards are averaged at the beginning and at the end


def evaluated(model: str | Path) -> Evaluation:
    config = {"sample.max_tokens": 96, "evaluate.greedy": False}
    return outrider.evaluate(model, "countdown", n=16, problems=300, config=config)


def trained(name: str, before: Evaluation, folder: Path) -> dict[str, object]:
    sys.path += [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "integrations")]
    from trl_cases import countdown

    begin = time.monotonic()
    trainer = countdown(folder, load_recipe(name), STEPS, ROWS, seed=SEED)
    trainer.train()
    minutes = (time.monotonic() - begin) / 60
    trainer.save_model(str(folder / "model"))
    change = compare(before, evaluated(folder / "model")).overall.pass_at
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    return {
        "largest_difference_of_advantages": max(trainer.differences),
        "credited_rows": sum(trainer.credited),
        "reward_first_steps": statistics.mean(rewards[:ENDS]),
        "reward_last_steps": statistics.mean(rewards[-ENDS:]),
        "rewards": rewards,
        "tokens": trainer.state.num_input_tokens_seen,
        "minutes": round(minutes, 1),
    } | {
        f"pass@{k}": {"before": before.overall.pass_at[k].value, "change": change[k].value}
        | {"low": change[k].low, "high": change[k].high}
        for k in (1, 16)
    }


def main() -> None:
    if find_spec("trl") is None:
        print("this interpreter has no TRL: skipped")
        return
    before = evaluated("base:countdown")
    found = {}
    for name in sys.argv[1:] or RECIPES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = trained(name, before, Path(folder))
    versions = {package: version(package) for package in ("trl", "accelerate", "transformers", "datasets")}
    keep("trl_credit", {"recipes": found, "seed": SEED, "steps": STEPS, "rows": ROWS, "packages": versions})


if __name__ == "__main__":
    main()
