"""``outrider analyse`` on a small run: what it leaves, interrupted and resumed, on two ranks, and what it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import save_file

from interrupted_import import waits_for_the_end_of_the_import
from outrider.analyse import folder as folder_module
from outrider.analyse import intervene_command, problems, selection, shift_command, tokens_command
from outrider.analyse.arguments import TokensAnalysis
from outrider.analyse.folder import AnalysisFolder
from outrider.analyse.selection import select
from outrider.cli import main
from outrider.config import load_recipe
from outrider.errors import UserError
from outrider.model.attention import use_plans
from outrider.model.load import Policy, save_policy
from outrider.model.tiny import character_tokenizer
from outrider.processes.ranks import Ranks
from outrider.record import Rollout, SampleRequest, group_id
from outrider.runs.folder import RunFolder
from outrider.sample.local import LocalSampler
from small import random_policy

RECIPE = ["sample.max_tokens=20", "evaluate.problems=3", "task.countdown.sizes=[3,4]", "train.problems=3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps and an evaluation, with the model it began with and another that it ended with."""
    path = tmp_path_factory.mktemp("runs") / "run"
    start, trained = random_policy(seed=0), random_policy(seed=1)
    save_policy(start, path.with_name("start"), {})
    recipe = load_recipe("grpo", [*RECIPE, f"model={path.with_name('start')}"])
    with RunFolder.create(path, recipe.resolved()) as folder:
        use_plans(start.model)
        sampler = LocalSampler(start, recipe.sample)

        def draw(step: int, asked: Sequence[Any], split: str) -> list[Rollout]:
            return sampler.sample(
                [SampleRequest(p, n=4, prompt_ids=start.encode(p), group_id=group_id(step, p, split)) for p in asked]
            )

        for step in (1, 2):
            folder.rollouts.write(step, draw(step, [recipe.task.train(3 * step + i) for i in range(3)], "train"))
        folder.rollouts.write(0, draw(0, recipe.task.heldout(3), "evaluate"), "evaluate")
    save_policy(trained, path / "model", {})
    return path


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process, and parts so small that there are several."""
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(selection, "PART_TOKENS", 40)
    monkeypatch.setattr(selection, "PART_CONTINUATIONS", 24)
    monkeypatch.setattr(problems, "BEYOND", 50)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != ".lock"
    }


KINDS = {
    "tokens": (["tokens", "--steps", "all"], tokens_command, "token_values"),
    "shift": (["shift", "--steps", "2-3"], shift_command, "token_values"),
    "intervene": (["intervene", "--positions", "2", "--k", "2"], intervene_command, "site_table"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_and_taken_up_again_leaves_the_same_files(
    kind: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, module, name = KINDS[kind]
    command = ["analyse", words[0], str(run), *words[1:], "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    said = capsys.readouterr().out
    whole = files(tmp_path / "whole")
    parts = [file for file in whole if file.startswith("parts/")]
    assert len(parts) >= 4
    calls = 0
    function: Callable[..., Any] = getattr(module, name)

    def interrupted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return function(*arguments, **more)

    monkeypatch.setattr(module, name, interrupted)
    again = tmp_path / "again"
    assert main([*command, str(again)]) == 130
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == "outrider: interrupted; run the same command again to continue"
    done = files(again)
    assert 0 < sum(file.startswith("parts/") for file in done) < len(parts)
    with pytest.raises(UserError, match="is not finished"):
        AnalysisFolder(again).table()
    (again / "parts" / ".train-truncated.parquet.tmp").write_bytes(b"half")
    before = {p: p.stat().st_mtime_ns for p in (again / "parts").glob("*.parquet")}
    assert main([*command, str(again)]) == 0
    assert capsys.readouterr().out.replace(str(again), str(tmp_path / "whole")) == said
    assert files(again) == whole
    assert {p: p.stat().st_mtime_ns for p in before} == before  # what was done is not done again
    assert main([*command, str(again)]) == 0  # nothing is left to do


@pytest.mark.parametrize("kind", ["tokens", "shift", "intervene"])
def test_ctrl_c_while_torch_is_imported_waits_for_the_end_of_the_import(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    command = ["analyse", kind, str(run), "--out", str(tmp_path / "out")]
    waits_for_the_end_of_the_import(monkeypatch, command, f"outrider.analyse.{kind}_command")
    assert not (tmp_path / "out").exists()


def test_a_pass_covers_every_token_once_in_order(run: Path, tmp_path: Path) -> None:
    assert main(["analyse", "tokens", str(run), "--steps", "all", "--mass", "0.5", "--out", str(tmp_path / "t")]) == 0
    table = AnalysisFolder(tmp_path / "t").table(["step", "member", "token_id", "sampled_logprob", "logprob"])
    rollouts = [r for step in (1, 2) for r in RunFolder(run).rollouts.read(step)]
    assert table["token_id"].to_pylist() == np.concatenate([r.token_ids for r in rollouts]).tolist()
    assert table["step"].to_pylist() == [1] * sum(len(r.token_ids) for r in rollouts[:12]) + [2] * sum(
        len(r.token_ids) for r in rollouts[12:]
    )
    assert np.abs(table["logprob"].to_numpy() - table["sampled_logprob"].to_numpy()).mean() > 0.1  # another model
    words = pq.read_table(tmp_path / "t" / "vocabulary.parquet").to_pydict()
    text = "".join(words["text"][i] for i in rollouts[0].token_ids if words["text"][i] not in ("<pad>", "<s>", "</s>"))
    assert text == rollouts[0].text
    start = ["analyse", "tokens", str(run), "--model", "start", "--steps", "1", "--out", str(tmp_path / "s")]
    assert main(start) == 0
    table = AnalysisFolder(tmp_path / "s").table(["sampled_logprob", "logprob"])
    assert np.abs(table["logprob"].to_numpy() - table["sampled_logprob"].to_numpy()).max() < 1e-4  # the one that drew


class Second(Ranks):
    """One of two ranks that run one after the other."""

    def from_main(self, make: Callable[[], Any]) -> Any:
        return make()

    def gather(self, make: Callable[[], Sequence[Any]]) -> list[Any]:
        return list(make())


def test_two_ranks_share_the_parts_and_write_the_same(run: Path, tmp_path: Path) -> None:
    asked = TokensAnalysis(steps="all")
    plan = select(run, asked)
    tokens_command._tokens(Ranks(), run, asked, plan, tmp_path / "one")
    share = AnalysisFolder(tmp_path / "two")
    with pytest.raises(UserError, match="not finished"):  # rank 0 sums up, and rank 1 has not begun
        tokens_command._tokens(Second(0, 2), run, asked, plan, tmp_path / "two")
    half = len(list((share.path / "parts").iterdir()))
    tokens_command._tokens(Second(0, 1), run, asked, plan, tmp_path / "two")
    assert half == (len(share.about()["parts"]) + 1) // 2
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_chosen_rollouts_are_spread_and_parts_cover_them(run: Path) -> None:
    every = select(run, TokensAnalysis(steps="all"))
    some = select(run, TokensAnalysis(steps="2", limit=5))
    assert [len(c.lengths) for c in some.steps] == [5]
    rollouts = RunFolder(run).rollouts.read(2)
    assert [r.id for r in some.read(run, 2)] == [rollouts[i].id for i in (0, 2, 4, 7, 9)]
    assert every.digest != some.digest
    for plan in (every, some):
        parts = plan.cut(lambda tokens: tokens, 30)
        for chosen in plan.steps:
            mine = [p for p in parts if p.step == chosen.step]
            assert [p.number for p in mine] == list(range(len(mine)))
            assert [i for p in mine for i in range(p.start, p.stop)] == list(range(len(chosen.lengths)))
            for p in mine:
                cost = sum(chosen.lengths[p.start : p.stop])
                assert p.cost == cost
                assert cost <= 30 or p.stop - p.start == 1


def test_a_dry_run_says_the_cost_and_writes_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(run)
    lengths = [len(r.token_ids) for r in RunFolder(run).rollouts.read(2)]
    assert main(["analyse", "intervene", str(run), "--positions", "3", "--k", "4", "--dry-run"]) == 0
    positions = sum(min(3, n) for n in lengths)
    said = capsys.readouterr().out
    assert said.startswith(f"12 train rollouts of 1 step, {sum(lengths):,} tokens; {positions} positions, ")
    assert f"{8 * positions:,} continuations" in said
    assert main(["analyse", "tokens", str(run), "--split", "evaluate", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("12 evaluate rollouts of 1 step, ")
    assert files(run) == before


@pytest.fixture(scope="module")
def foreign(run: Path) -> dict[str, str]:
    """Models that the rollouts are not of."""
    other = "".join(reversed("0123456789+-*/=,;:>. %#AB|()\n"))
    policies = {
        "small": random_policy(vocab_size=12),
        "reversed": Policy(random_policy().model, character_tokenizer(other)),
        "short": random_policy(max_position_embeddings=12),
    }
    for name, policy in policies.items():
        save_policy(policy, run.with_name(name), {})
    return {name: str(run.with_name(name)) for name in policies}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("tokens {run}x", "{run}x holds no run: it has no config.yaml."),
        ("tokens {run} --split greedy", "{run} has no greedy rollouts (known: evaluate, train)"),
        ("tokens {run} --steps 7", "{run} has no train rollouts of step 7; the nearest step is 2"),
        ("tokens {run} --steps 4-9", "{run} has no train rollouts of steps 4-9; the nearest step is 2"),
        (
            "tokens {run} --steps 1,b",
            "analyse tokens: steps: '1,b' is not last, all, or numbers and ranges such as",
        ),
        ("tokens {run} --limit 0", "analyse tokens: limit is 0, but should be at least 1"),
        ("tokens {run} --mass 1", "analyse tokens: masses.0 is 1.0, but should be less than 1"),
        ("tokens {run} --model step-2", "{run} holds no checkpoint 'step-2' (there: none)"),
        ("tokens {run} --model {small}", "but the vocabulary of {small} ends at 11: another token"),
        ("tokens {run} --model {reversed}", "but {reversed} decodes its tokens as '"),
        ("shift {run} --after {short}", "tokens, but the context of {short} is 12"),
        ("shift {run} --before nowhere/at/all", "model 'nowhere/at/all': no such folder"),
        ("tokens {run} --out {run}", "{run} is not empty (it holds config.yaml); choose another folder with --out"),
        ("intervene {run} --k 0", "analyse intervene: k is 0, but should be at least 1"),
        ("intervene {run} --choose best", "choose is \"best\", but should be 'entropy' or 'random'"),
        ("intervene {run} sample.temperature=0", "sample.temperature is 0, so the 8 continuations of a token would be"),
        ("intervene {run} task.countdown.sizes=[5]", "3 problems of {run}, such as 'countdown:"),
    ],
)
def test_a_users_mistake_is_one_sentence(
    words: str,
    sentence: str,
    run: Path,
    foreign: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = [word.format(run=run, **foreign) for word in words.split()]
    out = [] if "--out" in named else ["--out", str(tmp_path / "out")]
    assert main(["analyse", *named[:2], *out, *named[2:]]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("outrider: ")
    assert sentence.format(run=run, **foreign) in error


def test_another_analysis_is_not_mixed_in_and_nothing_is_not_analysed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["analyse", "tokens", str(run), "--limit", "2", "--out", str(tmp_path / "t")]
    assert main(command) == 0
    before = files(tmp_path / "t")
    capsys.readouterr()
    for words, change in [
        (["--temperature", "0.5"], "temperature: 1.0 -> 0.5"),
        (["--model", "start"], 'model: "trained" -> "start"; weights: '),
        (["--steps", "1"], 'steps: "last" -> "1"; rollouts: '),
    ]:
        assert main([*command, *words]) == 2
        assert f"holds another analysis ({change}" in capsys.readouterr().err
    assert files(tmp_path / "t") == before
    empty = tmp_path / "empty"
    shutil.copytree(run, empty)
    rollout = RunFolder(run).rollouts.read(1)[0]
    none = replace(rollout, token_ids=rollout.token_ids[:0], logprobs_T=rollout.logprobs_T[:0], entropies_T=None)
    RunFolder(empty).rollouts.write(3, [none])
    assert main(["analyse", "tokens", str(empty)]) == 2
    assert "no token is selected: the chosen train rollouts of" in capsys.readouterr().err


def test_a_checkpoint_can_be_analysed(run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    checkpoint = copied / "checkpoints" / "step-00000002"
    checkpoint.mkdir(parents=True)
    save_file(
        {n: p.detach() for n, p in random_policy(seed=1).model.named_parameters()}, checkpoint / "weights.safetensors"
    )
    tables = []
    for model in ("trained", "step-2"):
        out = tmp_path / model
        assert main(["analyse", "tokens", str(copied), "--model", model, "--out", str(out)]) == 0
        tables.append(AnalysisFolder(out).table())
    assert tables[0].equals(tables[1])


def test_the_rows_of_a_part_are_on_disk_before_the_next_begins(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, write = [], folder_module.write_table

    def noted(path: Path, table: Any) -> None:
        write(path, table)
        seen.append(len(list((tmp_path / "t" / "parts").glob("*.parquet"))))

    monkeypatch.setattr(folder_module, "write_table", noted)
    assert main(["analyse", "tokens", str(run), "--out", str(tmp_path / "t")]) == 0
    assert seen == list(range(len(seen)))
    assert len(seen) > 2
