"""A class of the user's as a task, as the page about environments shows it, and what is said where it cannot be."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from child_processes import begun
from outrider.cli import main
from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.model.chat import observation_text
from outrider.model.tiny import character_tokenizer
from outrider.record import StopReason
from outrider.record.store import RolloutStore
from outrider.runs.folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def block(kind: str, place: int = 0) -> str:
    found = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found[place])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "guess.py").write_text(block("python"))
    (tmp_path / "guess.yaml").write_text(block("yaml"))
    for name, numbers in {"numbers": range(1, 40), "held": range(40, 50)}.items():
        rows = [{"question": f"{number}>", "answer": str(number)} for number in numbers]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_recipe_of_the_page_trains(folder: Path) -> None:
    assert main(["train", "guess.yaml", "--out", "runs/guess", "train.ranks=1", "train.trackers=[]"]) == 0
    rows = RunFolder(folder / "runs" / "guess").metrics()
    assert [row["step"] for row in rows] == [1, 2]
    rollouts = [r for step in (1, 2) for r in RolloutStore(folder / "runs" / "guess" / "rollouts").read(step)]
    assert {"done", "length"} & {rollout.stop.value for rollout in rollouts}
    assert any(rollout.trainable_T is not None for rollout in rollouts)
    assert not any("environment" in rollout.stop.value for rollout in rollouts)


def test_the_test_of_the_page_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    names: dict[str, Any] = {}
    try:
        exec(compile(block("python", 1), "environments.md", "exec"), names)
        names["test_guess_keeps_the_laws"]()
    finally:
        sys.modules.pop("guess", None)


def test_a_killed_run_with_environments_in_processes_goes_on(folder: Path) -> None:
    """To the same problems and seeds: environments answer in any order, so the last bits of the numbers may differ."""
    words = ["train", "guess.yaml", "--out", "runs/guess", "train.ranks=1", "train.trackers=[]"]
    words += ["train.steps=4", "train.save_every=1", "explore.0.n=4", "train.problems=4"]
    process = begun(words, folder / "errors.txt")
    run = folder / "runs" / "guess"
    process.wait_for((run / "rollouts" / "train-00000002.parquet").exists)
    process.send(signal.SIGKILL)
    process.wait()
    saved = {path.name: path.read_bytes() for path in (run / "rollouts").glob("train-*.parquet")}
    assert main([*words, "--resume"]) == 0
    assert [row["step"] for row in RunFolder(run).metrics()] == [1, 2, 3, 4]
    whole = [*words[:3], "runs/whole", *words[4:]]
    assert main(whole) == 0
    drawn = {}
    for name in ("guess", "whole"):
        store = RolloutStore(folder / "runs" / name / "rollouts")
        drawn[name] = [(r.id, r.seed, r.prompt_ids.tolist()) for step in store.steps() for r in store.read(step)]
        assert not any(r.stop is StopReason.ENVIRONMENT for step in store.steps() for r in store.read(step))
    assert len(drawn["guess"]) == 4 * 4 * 4
    assert drawn["guess"] == drawn["whole"]
    kept = min(saved)
    assert (run / "rollouts" / kept).read_bytes() == saved[kept], "what a checkpoint covers is drawn once"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Guess: ...", "guess.py:Guess is no environment: a class with begin and step"),
        ("", "guess.py has no 'Guess'"),
        ("import nothing_there", "guess.py cannot be imported: ModuleNotFoundError"),
        (
            "from outrider.environments.environment import Environment\nclass Guess(Environment):\n"
            "    def begin(self, problem, seed): return ''",
            "guess.py:Guess has no step, which an environment has",
        ),
    ],
)
def test_what_is_no_environment_is_a_sentence(folder: Path, source: str, said: str, capsys) -> None:
    (folder / "guess.py").write_text(source)
    assert main(["train", "guess.yaml", "--out", "runs/guess", "train.ranks=1"]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "runs").exists()


def test_the_fingerprint_changes_with_the_file_of_the_class(folder: Path) -> None:
    """Also where the class is as it was: what it calls decides what it says."""

    def fingerprint() -> str:
        return load_recipe("guess.yaml", []).task.fingerprint

    first = fingerprint()
    assert fingerprint() == first
    source = (folder / "guess.py").read_text()
    (folder / "guess.py").write_text(f"LIMIT = 7\n{source}")
    assert fingerprint() != first
    (folder / "guess.py").write_text("from other import Guess\n")
    (folder / "other.py").write_text(source)
    sys.path.insert(0, str(folder))
    try:
        again = fingerprint()
        (folder / "other.py").write_text(f"{source}LIMIT = 7\n")
        assert fingerprint() != again, "the file that defines it"
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("other", None)


def test_a_place_that_is_none_is_a_sentence() -> None:
    with pytest.raises(UserError, match="'guess' is no import path"):
        load_recipe("grpo", ["task={environment: {environment: guess, problems: {train_data: a, heldout_data: b}}}"])


REWRITING = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' and not loop.last %}{{ m.content.split('</think>')[-1] }}"
    "{% else %}{{ m.content }}{% endif %}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def templated(template: str) -> PreTrainedTokenizerFast:
    tokenizer = character_tokenizer()
    tokenizer.chat_template = template
    return tokenizer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("last", "written"),
    [
        ("<|end|>", "\n<|user|>seen<|end|>\n<|assistant|>"),  # the policy has ended its turn as the template does
        (";", "<|end|>\n<|user|>seen<|end|>\n<|assistant|>"),  # a stop text has: the template ends the turn
    ],
)
def test_of_a_template_only_what_is_new_is_written(last: str, written: str) -> None:
    """Also of one that shows earlier turns without their thinking, as Qwen3's does."""
    assert observation_text(templated(REWRITING), "seen", last) == written


def test_a_template_that_shows_no_turns_is_refused() -> None:
    with pytest.raises(UserError, match="does not render assistant turns"):
        observation_text(templated("{{ messages[0].content }}"), "seen", "")


def test_a_message_is_encoded_as_the_template_writes_it() -> None:
    from outrider.model.options import PolicyOptions
    from outrider.model.tiny import tiny_policy

    plain = tiny_policy(0)
    plain.tokenizer.chat_template = "{% for m in messages %}({{ m.content }}){% endfor %}"
    chat = plain._replace(options=PolicyOptions(chat=True))
    assert (
        chat.observation("12", chat.tokenizer(")", add_special_tokens=False)["input_ids"][0]).tolist()
        == (chat.tokenizer("(12)", add_special_tokens=False)["input_ids"])
    )
    assert np.array_equal(plain.observation("12"), plain.tokenizer("12", add_special_tokens=False)["input_ids"])


def test_the_end_of_a_prompt_is_what_the_template_writes_behind_the_question() -> None:
    from outrider.model.options import PolicyOptions
    from outrider.model.tiny import tiny_policy

    plain = tiny_policy(0)
    assert plain.prompt_end is None
    plain.tokenizer.chat_template = (
        "{% for m in messages %}({{ m.content }}){% endfor %}{% if add_generation_prompt %}A:<think>\n{% endif %}"
    )
    assert plain._replace(options=PolicyOptions(chat=True, system="Sum.")).prompt_end == ")A:<think>\n"
