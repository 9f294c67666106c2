"""benchmarks/language_models.py with a tiny model, its parts, and its page."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest

from outrider.config import load_recipe
from outrider.tasks.word_problems import WordProblems

ROOT = Path(__file__).parents[2]
FEW = ["grpo-8", "deep-grpo", "sft-grpo"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import language_models
    finally:
        sys.path.pop(0)
    return language_models


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with the fields of GSM8K's."""
    folder, task = tmp_path_factory.mktemp("data"), WordProblems(steps=(2, 3), highest=12, cap=100)
    for side, problems in (("train", [task.train(i) for i in range(12)]), ("test", task.heldout(4))):
        rows = [
            {"problem": p.prompt, "solution": p.metadata["solution"], "answer": p.metadata["solution"][:-1].split()[-1]}
            for p in problems
        ]
        (folder / f"{side}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def asked(data: Path, out: Path, *parts: str, minutes: float = 5) -> Namespace:
    return Namespace(
        model="base:prose", data=data, out=out, parts=[*parts], minutes=minutes, tokens=1, sampler="local", tiny=True
    )


@pytest.mark.parametrize("parts", [pytest.param(FEW, id="few"), pytest.param([], id="all", marks=pytest.mark.slow)])
def test_parts_go_on_where_they_were_interrupted_and_are_run_once(
    script, data: Path, tmp_path: Path, parts, capsys
) -> None:
    first = parts[0] if parts else script.PARTS[0].name
    assert script.run(asked(data, tmp_path, first, minutes=0)) == 1
    assert f"{first}: goes on at the next call" in capsys.readouterr().out
    assert len((tmp_path / first / "metrics.jsonl").read_text().splitlines()) == 1
    assert script.run(asked(data, tmp_path, *parts)) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert [*results] == [part.name for part in script.PARTS if not parts or part.name in parts]
    assert all(result["steps"] >= 2 and result["card"] for result in results.values())
    assert "not run" in script.page({})
    assert f"| `{first}` | {results[first]['steps']} |" in script.page(results)
    capsys.readouterr()
    assert script.run(asked(data, tmp_path, *parts)) == 0  # nothing is left to do
    assert first not in capsys.readouterr().out


def test_every_part_is_a_recipe_in_the_papers_setting(script, data: Path, tmp_path: Path) -> None:
    names = [part.name for part in script.PARTS]
    assert len(names) == len({*names})
    for part in script.PARTS:
        full = Namespace(**{**vars(asked(data, tmp_path)), "tiny": False, "tokens": 6_000_000})
        recipe = load_recipe(part.recipe, script.config_of(part, full, 3e-6), setting="gsm8k-0.5b")
        assert recipe.train.tokens == int(6_000_000 * part.share)
        assert part.after in ("", "sft", *names[: names.index(part.name)])


def test_an_unknown_part_is_refused(script, data: Path, tmp_path: Path, capsys) -> None:
    assert script.run(asked(data, tmp_path, "grpo-9")) == 2
    assert "no such part: grpo-9" in capsys.readouterr().out


def test_parts_of_a_model_are_joined_in_order(script, tmp_path: Path, capsys) -> None:
    parts = [tmp_path / name for name in ("a", "b")]
    for part, text in zip(parts, (b"one ", b"two"), strict=True):
        part.write_bytes(text)
    script.join(parts, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == b"one two"
    assert "7 bytes" in capsys.readouterr().out


def made_up(after: float, low: float, high: float) -> dict:
    value = {"before": 0.0, "change": after, "low": low, "high": high}
    return {"pass@1": value, "pass@64": value, "greedy": {"after": after, "low": low, "high": high},
            "entropy": {"after": after}, "rollouts": 30 * after, "steps": 3, "card": "a card"}  # fmt: skip


def test_a_claim_shows_where_intervals_do_not_meet(script) -> None:
    results = {"grpo-8": made_up(0.5, 0.4, 0.6), "deep-grpo": made_up(0.8, 0.7, 0.9)}
    rows = [line for line in script.page(results).splitlines() if "`deep-grpo`, `grpo-8`" in line]
    assert [row.split("|")[-2].strip() for row in rows] == ["shows", "higher"]  # accuracy; entropy has no interval
    results["deep-grpo"] = made_up(0.55, 0.4, 0.7)
    rows = [line for line in script.page(results).splitlines() if "greedy: `deep-grpo`, `grpo-8`" in line]
    assert rows[0].endswith("| 0.550, 0.500 | higher, intervals overlap |")
    results["deep-grpo"] = made_up(0.45, 0.3, 0.6)
    assert "| 0.450, 0.500 | does not show |" in script.page(results)
    assert script.page(results).startswith("Measured on a card, 2 of")


def test_the_page_is_that_of_the_kept_results(script) -> None:
    kept = ROOT / "benchmarks/results/language_models/page.md"
    assert kept.read_text("utf-8") == script.page()


def test_a_part_that_was_begun_keeps_its_learning_rate(script, data: Path, tmp_path: Path) -> None:
    part = next(part for part in script.PARTS if part.name == "grpo-8")
    trials = {f"rate-{rate:g}": made_up(rate * 1e4, 0.0, 1.0) for rate in (1e-6, 3e-6, 1e-5)}
    assert script.rate_of(part, asked(data, tmp_path), trials) == 1e-5
    (tmp_path / "grpo-8").mkdir()
    (tmp_path / "grpo-8" / "config.yaml").write_text("learn: {lr: 3.0e-6}\n")
    (tmp_path / "grpo-8" / "metrics.jsonl").touch()
    assert script.rate_of(part, asked(data, tmp_path), trials) == 3e-6
