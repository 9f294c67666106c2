"""The tables of docs/performance.md, from the committed results of ``make bench``, ``scale.py`` and ``gpu.py``.

Usage: ``python tools/performance_page.py``.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/performance.md"
RESULTS = ROOT / "benchmarks/results"
LARGEST = 5  # operations of a table


class Line(NamedTuple):
    """One comparison: what was measured, the other program's number, ours, their ratio, and the aim."""

    what: str
    other: str
    ours: str
    ratio: float
    spread: str
    aim: float
    less: bool = False
    """Whether a smaller ratio is better."""

    @property
    def reached(self) -> bool:
        return self.ratio <= self.aim if self.less else self.ratio >= self.aim

    def cells(self) -> list[str]:
        aim = f"{'at most ' if self.less else ''}{self.aim:g}"
        ratio = f"**{self.ratio:g}**" if self.reached else f"{self.ratio:g}"
        return [self.what, self.other, self.ours, f"{ratio}{self.spread}", aim]


def results(name: str) -> dict[str, Any]:
    """The committed results of one benchmark."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def between(ratio: dict[str, float]) -> str:
    """The lowest and the highest ratio of the pairs."""
    return f" ({ratio['min']:g} to {ratio['max']:g})"


def shorter(what: str, other: str, ours: str, ratio: dict[str, float], aim: float) -> Line:
    """A comparison of seconds, whose ratio should be small."""
    ratio = {name: round(value, 2) for name, value in ratio.items()}
    return Line(what, other, ours, ratio["median"], between(ratio), aim, less=True)


def compared() -> Iterator[Line]:
    """Every comparison on a CPU."""
    trl, sampler, learner = results("trl_step"), results("sampler"), results("learner")
    vocabulary, step, waves = results("vocabulary"), results("step"), results("waves")
    lag, start = results("lag"), results("start")
    for key, cores, aim in (("one_thread", "one thread", 4.5), ("cores_2", "two cores", 5.0)):
        both = trl[key]
        yield Line(
            f"training step, 256 responses, {cores}",
            f"TRL: {both['trl_seconds_per_step']:.2f} s",
            f"{both['seconds_per_step']:.2f} s",
            both["ratio"]["median"],
            between(both["ratio"]),
            aim,
        )
    fused = sampler["fused"]
    yield Line(
        "sampling, shipped base, one thread",
        f"`generate`: {fused['generate_tokens_per_second_one_thread']:,} tokens/s",
        f"{fused['tokens_per_second_one_thread']:,} tokens/s",
        fused["ratio"]["median"],
        between(fused["ratio"]),
        5.0,
    )
    yield Line(
        "sampling, SmolLM2-135M's shape, one thread",
        f"`generate`: {vocabulary['generate_tokens_per_second_one_thread']:.0f} tokens/s",
        f"{vocabulary['tokens_per_second_one_thread']:.0f} tokens/s",
        vocabulary["ratio"]["median"],
        between(vocabulary["ratio"]),
        2.5,
    )
    packed = learner["micro_tokens_4096"]
    yield Line(
        "learning, shipped base, one thread",
        f"padded rows: {packed['padded_tokens_per_second']:,} tokens/s",
        f"{packed['tokens_per_second']:,} tokens/s",
        packed["ratio"]["median"],
        between(packed["ratio"]),
        2.2,
    )
    yield Line(
        "training step on two ranks",
        f"one rank: {step['ranks_1']['seconds_per_step']:.2f} s",
        f"{step['ranks_2']['seconds_per_step']:.2f} s",
        step["two_ranks_over_one"]["median"],
        between(step["two_ranks_over_one"]),
        1.7,
    )
    for problems in (32, 128):
        rounds = waves[f"problems_{problems}"]
        yield shorter(
            f"training step of {problems} problems in three waves, one thread",
            f"one wave: {rounds['one_wave_seconds']['step']:.2f} s",
            f"{rounds['three_waves_seconds']['step']:.2f} s",
            rounds["ratio"],
            1.08,
        )
    turn, lagging = lag["in turn"], lag["lag 1"]
    yield shorter(
        "training time with `train.lag=1`, two processes",
        f"one process in turn: {turn['seconds'][0]} s",
        f"{lagging['seconds'][0]} s",
        lagging["seconds over in turn"],
        0.65,
    )
    seconds = start["seconds"]
    yield Line(
        "start and end of a run of one step",
        f"imports of torch and transformers: {seconds['import torch; from transformers import PreTrainedModel']} s",
        f"{seconds['run without its step']} s",
        seconds["run without its step"],
        " s",
        5.0,
        less=True,
    )


def shares() -> list[list[str]]:
    """The largest operations of sampling and learning, and the share of sgemm that the whole reaches."""
    parts = {
        "sampling, shipped base": results("sampler")["fused"],
        "sampling, SmolLM2-135M's shape": results("vocabulary"),
        "learning, shipped base": results("learner")["micro_tokens_4096"],
    }
    return [
        [
            name,
            f"{100 * found['share_of_sgemm']:.0f} %",
            ", ".join(
                f"`{operation.removeprefix('aten::')}` {100 * share:.0f} %"
                for operation, share in list(found["operations"].items())[:LARGEST]
            ),
        ]
        for name, found in parts.items()
    ]


def slopes() -> list[list[str]]:
    """The slopes of ``scale.py``; those of all recipes by one size together."""
    kinds: dict[str, list[float]] = {}
    for name, curve in results("scale")["curves"].items():
        kind = f"recipes {name.split(' ', 1)[1]}" if is_recipe(name) else name
        kinds.setdefault(kind, []).append(curve["slope"])
    return [
        [kind, str(len(each)), f"{statistics.median(each):.2f}", f"{max(each):.2f}"] for kind, each in kinds.items()
    ]


def is_recipe(name: str) -> bool:
    """Whether a curve is of a recipe."""
    return bool(re.search(r" by (problems|rollouts|pool)$", name)) and name.split()[0] not in (
        "metrics",
        "disk",
        "gather",
    )


def steep() -> list[list[str]]:
    """The curves that ``scale.py`` names, with the reason."""
    curves = results("scale")["curves"]
    return [
        [
            name,
            why.split(": ")[0].removeprefix("slope "),
            why.split(": ", 1)[1],
            ", ".join(f"{size}: {seconds:g} s" for size, seconds in curves[name].items() if size != "slope"),
        ]
        for name, why in results("scale")["named"].items()
    ]


def on_a_gpu() -> list[list[str]]:
    """What was measured on a GPU, of 0.5 B."""
    found = results("gpu")
    names = {
        "learning/local": "learning, 262,144 tokens",
        "learning/local, layers computed twice": "the same, `learn.gradient_checkpointing=true`",
        "learning/transformers": "the same by plain transformers",
        "step/grpo, local": "training step of `grpo`, local sampler",
        "step/grpo, vllm": "training step of `grpo`, in-process vLLM",
        "step/grpo, trl": "the same by TRL with in-process vLLM",
        "sampling/local": "sampling 256 responses, local sampler",
        "sampling/vllm": "sampling 256 responses, vLLM",
    }
    return [
        [
            what,
            card_of(found[f"0.5b/{name}"]),
            f"{found[f'0.5b/{name}']['seconds']:.1f}",
            f"{found[f'0.5b/{name}']['tokens_per_second']:,.0f}",
            f"{found[f'0.5b/{name}']['peak_gib']:.0f}",
        ]
        for name, what in names.items()
    ]


def card_of(result: dict[str, Any]) -> str:
    """The GPU of a result."""
    card = re.search(r"[HAB]\d+", result.get("engine", ""))
    return card[0] if card else "H100"  # TRL's ran in the same lease as the steps beside it


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> str:
    """A Markdown table whose last ``right`` columns are numbers."""
    rule = ["---"] * (len(heads) - right) + ["---:"] * right
    return "\n".join("| " + " | ".join(row) + " |" for row in [list(heads), rule, *map(list, rows)])


def tables() -> dict[str, str]:
    """Every table by its name on the page."""
    heads = ["what", "beside", "Outrider", "ratio (lowest to highest of the pairs)", "aim"]
    return {
        "cpu": table(heads, [line.cells() for line in compared()]),
        "operations": table(["what", "share of sgemm", "largest operations, share of the time"], shares()),
        "slopes": table(["what, by what", "curves", "median slope", "largest slope"], slopes(), 3),
        "steep": table(["curve", "slope", "reason", "seconds by size"], steep()),
        "gpu": table(["what", "GPU", "seconds", "tokens/s", "peak GiB"], on_a_gpu(), 3),
    }


def page(text: str) -> str:
    """The page with every table as the results have it."""
    for name, made in tables().items():
        text, found = re.subn(
            rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)",
            lambda match, made=made: f"{match[1]}\n{made}\n{match[2]}",
            text,
            flags=re.S,
        )
        assert found == 1, name
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
