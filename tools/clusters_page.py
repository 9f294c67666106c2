"""The tables of docs/clusters.md and docs/tinker.md that follow from the code and from measurements.

Usage: ``python tools/clusters_page.py``. The code that refuses recipes decides which ones an
engine supports; the behaviour of a Tinker service is read from ``benchmarks/results/tinker_service.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider.config import list_recipes, load_recipe
from outrider.errors import UserError
from outrider.integrations.verl_config import verl_settings
from outrider.integrations.verl_config_command import load_for_verl

ROOT = Path(__file__).parents[1]
CLUSTERS, TINKER = ROOT / "docs/clusters.md", ROOT / "docs/tinker.md"
MEASURED = ROOT / "benchmarks/results/tinker_service.json"

TINKER_WORDS = ["engine=tinker", "policy.lora={rank: 32}", "learn.clip_norm=null"]
SERVERS = "sampler: {vllm: {servers: ['http://127.0.0.1:8000']}}"
VERL_WORDS = ["train.steps=200", "train.tokens=null", "learn.warmup=0 steps"]
NO_KL = "objective.kl=0"

Try = Callable[[str, list[str]], Any]
ENGINES: dict[str, tuple[list[str], Try]] = {
    "local": ([], load_recipe),
    "vLLM as sampler": ([f"engine={{{SERVERS}}}"], load_recipe),
    "FSDP2 as learner, with vLLM": ([f"engine={{learner: fsdp2, {SERVERS}}}"], load_recipe),
    "Tinker": (TINKER_WORDS, load_recipe),
    "verl": (VERL_WORDS, lambda name, words: verl_settings(load_for_verl(name, words, None))),
}


def carried() -> str:
    """The shipped recipes that each engine supports on Countdown, and why it refuses the others."""
    names = [info.name for info in list_recipes()]
    lines = [
        "| engine | recipes | options to add | with `objective.kl=0` too | refused recipes, with the reason |",
        "|---|---|---|---|---|",
    ]
    for engine, (words, carry) in ENGINES.items():
        plain, without, refused = [], [], dict[str, list[str]]()
        for name in names:
            reason = _refused(carry, name, words)
            if not reason:
                plain.append(name)
            elif "kl" in reason and not _refused(carry, name, [*words, NO_KL]):
                without.append(name)
            else:
                refused.setdefault(_refused(carry, name, [*words, NO_KL]) or reason, []).append(name)
        why = "; ".join(f"{', '.join(found)}: {reason}" for reason, found in refused.items())
        said = "<br>".join(f"`{word}`" for word in words)
        lines.append(
            f"| {engine} | {len(plain)} of {len(names)} | {said} | {', '.join(without) or '-'} | {why or '-'} |"
        )
    return "\n".join(lines)


def _refused(carry: Try, name: str, words: list[str]) -> str:
    """Why, without names of files and components that only this recipe has."""
    try:
        carry(name, words)
    except UserError as error:
        sentence = str(error).removeprefix("verl does not support this recipe: ")
        sentence = re.sub(r"^\S+\.yaml: ", "", sentence)
        return re.sub(r"explore\.\[?\d+\]?", "a stage", sentence).partition("; ")[0]
    return ""


def measured() -> str:
    """Behaviour that the benchmark found in a service."""
    found = json.loads(MEASURED.read_text())["SkyRL, JAX"]
    rows = {
        "reduction over the tokens of a row": "mean, prompt tokens included" if found["row_mean"] else "sum",
        "reduction over rows": "mean" if found["batch_mean"] else "sum",
        "Adam's epsilon": _does(found["epsilon"]),
        "gradient clipping": _does(found["clipping"]),
        "`num_samples` with a seed": "seed, seed + 1, …" if found["seeds_count_up"] else "no rule found",
        "same seed in another batch": "same rollout" if found["same_in_any_batch"] else "other rollout",
        "largest difference of a log-probability, sampler and trainer": f"{found['sampler_and_trainer_apart']:.1e}",
        "new weights reach the sampler": "at the weight sync"
        if found["weights_wait_for_a_hand_over"]
        else "at once: both share memory",
    }
    probed = {"reduction over the tokens of a row", "reduction over rows", "Adam's epsilon", "gradient clipping"}
    rest = {what: "probed before training" if what in probed else "unknown" for what in rows}
    head = ["| behaviour | SkyRL 0.3.0, JAX on a CPU | other services |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {what} | {does} | {rest[what]} |" for what, does in rows.items())])


def _does(applied: bool) -> str:
    return "applied" if applied else "ignored: `learn.clip_norm=null`"


def page(text: str, tables: dict[str, Callable[[], str]]) -> str:
    """The text with its tables between marks written anew."""
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, ending, after = rest.partition(end)
        assert ending, f"no place for {name}"
        text = f"{before}{begin}\n{table()}\n{ending}{after}"
    return text


PAGES = {CLUSTERS: {"carried": carried}, TINKER: {"measured": measured}}


def main() -> None:
    """Write both pages anew."""
    for file, tables in PAGES.items():
        file.write_text(page(file.read_text("utf-8"), tables), "utf-8")


if __name__ == "__main__":
    main()
