"""The sections of analyses: against plain Python over the same tokens, and over folders that are not whole."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report_sections import figure_of, line, mean, same, table_of

from outrider.analyse.arguments import Intervene, Shift, TokensAnalysis
from outrider.analyse.folder import AnalysisFolder, write_table
from outrider.analyse.forward import TokenValues
from outrider.analyse.shift_command import shift_table
from outrider.analyse.sites import ContinuationCounts, Site, site_table
from outrider.analyse.tokens_command import token_table
from outrider.record import Rollout
from outrider.record.verdict import correct, incorrect
from outrider.report.build import build
from outrider.report.page import render
from outrider.report.run import open_run
from outrider.report.sections import analysis, analysis_intervene, analysis_shift, analysis_tokens
from outrider.tasks import Countdown
from runs import CONFIG, RunFolder

WORDS = [" xq", " 1", " 22", " wait", " zz", " 7"]  # three numbers, one that is metacognitive, two that are nothing
STEPS = (1, 3)
K = 4


def rollouts(step: int) -> list[Rollout]:
    """Two groups of six: roots of 1 to 9 tokens, two branches among them, one without a verdict."""
    rng = np.random.default_rng(step)
    made = []
    for problem in ("p", "q"):
        for member in range(6):
            own, prefix = int(rng.integers(1, 10)), 4 * (member > 3)
            one = Rollout(
                problem_id=problem,
                group_id=f"train:{step}:{problem}",
                member=member,
                prompt_ids=np.array([1], np.int32),
                token_ids=rng.integers(0, len(WORDS), own).astype(np.int32),
                logprobs_T=np.full(own, -1.0, np.float32),
                prefix_ids=np.ones(prefix, np.int32),
                parent=f"train:{step}:{problem}/0" if prefix else None,
                verdict=None if member == 2 else correct("") if rng.random() < 0.4 else incorrect(""),
                advantage=None if member == 5 else float(rng.normal()),
            )
            made.append(one)
    return made


def values(one: Rollout, seed: int) -> TokenValues:
    rng = np.random.default_rng([seed, one.member, len(one.group_id), len(one.token_ids)])
    size = len(one.token_ids)
    floats = [rng.gamma(1.0, size=size).astype(np.float32) for _ in range(6)]
    logprobs, entropies, errors, hidden, gradients, others = floats
    counts = rng.integers(1, 4, (size, 1)).astype(np.int32)
    return TokenValues(-logprobs, entropies, errors, hidden, gradients, one.token_ids, -others, counts)


def sites(step: int) -> tuple[list[Site], list[ContinuationCounts], list[ContinuationCounts]]:
    """Every third token; at one of them a continuation could not be verified."""
    rng = np.random.default_rng(10 + step)
    found = [Site(one, at, values(one, 0)) for one in rollouts(step) for at in range(0, len(one.token_ids), 3)]
    counts = [[ContinuationCounts(int(n), 0, 5) for n in rng.integers(0, K + 1, len(found))] for _ in range(2)]
    counts[0][1] = ContinuationCounts(2, 1, 5)
    return found, *counts


def write(folder: Path, kind: str, asked: Any, make: Any) -> None:
    """One part for each step, as the command leaves them."""
    names = [f"train-{step:08d}-00000" for step in STEPS]
    with AnalysisFolder(folder / "analysis" / kind) as written:
        written.begin({"analysis": kind, **asked.model_dump(mode="json"), "parts": names}, WORDS)
        for step, name in zip(STEPS, names, strict=True):
            write_table(written.place(name), make(step))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    with RunFolder.create(path, CONFIG) as run:
        for step in STEPS:
            run.rollouts.write(step, rollouts(step))

    def both(step: int, seed: int) -> list[TokenValues]:
        return [values(one, seed) for one in rollouts(step)]

    tokens, site = TokensAnalysis(), Intervene(task=Countdown(), k=K)
    write(path, "tokens", tokens, lambda s: token_table("train", s, rollouts(s), both(s, 0), tokens))
    write(path, "shift", Shift(), lambda s: shift_table("train", s, rollouts(s), both(s, 0), both(s, 1)))
    write(path, "intervene", site, lambda s: site_table("train", s, *sites(s), K))
    return path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to be broken."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def every_token() -> list[dict[str, Any]]:
    """What the tables hold, token by token."""
    found = []
    for step in STEPS:
        for one in rollouts(step):
            told, later = values(one, 0), values(one, 1)
            for t, token in enumerate(one.token_ids.tolist()):
                row = {
                    "step": step,
                    "id": one.id,
                    "token": token,
                    "correct": None if one.verdict is None else one.success,
                    "place": (one.branch_at + t) * 20 // (one.branch_at + len(one.token_ids)),
                    "entropy": float(told.entropies[t]),
                    "branching": int(told.branching_TM[t, 0]),
                    "norm": float(told.gradient_norms[t]),
                    "advantage": math.nan if one.advantage is None else one.advantage,
                    "before": float(told.logprobs[t]),
                    "shift": math.exp(later.logprobs[t]) - math.exp(told.logprobs[t]),
                }
                found.append(row)
    return found


def places(rows: list[dict[str, Any]], value: str) -> dict[float, float]:
    bins = sorted({row["place"] for row in rows})
    return {(b + 0.5) / 20: mean(row[value] for row in rows if row["place"] == b) for b in bins}


# tokens


def test_tokens_by_position_and_the_gradient_weighed_by_the_advantage(whole):
    found, rows = analysis_tokens.section(open_run(whole)), every_token()
    for step in STEPS:  # several steps: the first against the last
        of_step = [row for row in rows if row["step"] == step]
        same(line(found, "tokens-entropy-position", f"step {step}"), places(of_step, "entropy"))
    for row in rows:
        row["weighed"] = row["norm"] * abs(row["advantage"])
    for name, success in (("correct", True), ("not correct", False)):
        part = [row for row in rows if row["correct"] is success]
        same(line(found, "tokens-branching-95", name), places(part, "branching"))
        same(line(found, "tokens-gradient-position", name), places(part, "weighed"))
    series = figure_of(found, "tokens-gradient-position").series[0]
    inside = [low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True) if low == low]
    assert len(inside) > 5  # of the 20 places: those where both problems have a token
    assert all(inside)


def test_what_tokens_are_like_by_outcome_quantile_and_category(whole):
    cells = table_of(analysis_tokens.section(open_run(whole)), "tokens-means")
    told = {(row["by"], row[""]): (row["tokens"], row["entropy"], row["gradient of log p"]) for row in cells}
    rows = every_token()
    ranked = sorted(row["entropy"] for row in rows)
    low, high = (ranked[math.ceil(share * len(rows)) - 1] for share in (0.2, 0.8))
    groups = {
        ("", "all"): lambda row: True,
        ("outcome", "correct"): lambda row: row["correct"] is True,
        ("outcome", "not correct"): lambda row: row["correct"] is False,
        ("entropy", "lowest 20 %"): lambda row: row["entropy"] <= low,
        ("entropy", "highest 20 %"): lambda row: row["entropy"] > high,
        ("category", "formal reasoning"): lambda row: row["token"] in (1, 2, 5),
        ("category", "metacognitive"): lambda row: row["token"] == 3,
    }
    for name, which in groups.items():
        part = [row for row in rows if which(row)]
        wanted = (len(part), mean(row["entropy"] for row in part), mean(row["norm"] for row in part))
        assert told[name] == pytest.approx(wanted), name


def test_without_an_advantage_the_gradient_is_that_of_the_log_probability(folder):
    part = folder / "analysis/tokens/parts/train-00000001-00000.parquet"
    bare = [replace(one, advantage=None) for one in rollouts(1)]
    write_table(part, token_table("train", 1, bare, [values(one, 0) for one in bare], TokensAnalysis()))
    (folder / "analysis/tokens/parts/train-00000003-00000.parquet").unlink()
    found = analysis_tokens.section(open_run(folder))
    rows = [row for row in every_token() if row["step"] == 1 and row["correct"] is True]
    same(line(found, "tokens-gradient-position", "correct"), places(rows, "norm"))
    assert "no advantage" in figure_of(found, "tokens-gradient-position").note
    same(line(found, "tokens-entropy-position", "correct"), places(rows, "entropy"))  # one step: by outcome


# shift


def test_what_moved_and_where_the_largest_changes_are(whole):
    found, rows = analysis_shift.section(open_run(whole)), every_token()
    moved = {row["responses"]: row for row in table_of(found, "shift-moved")}
    for name, part in {"all": rows, "correct": [row for row in rows if row["correct"]]}.items():
        assert moved[name]["tokens"] == len(part)
        assert moved[name]["sum of rises"] == pytest.approx(sum(max(row["shift"], 0) for row in part), rel=1e-5)
        assert moved[name]["sum of falls"] == pytest.approx(sum(min(row["shift"], 0) for row in part), rel=1e-5)
        assert moved[name]["beyond 0.06"] == pytest.approx(mean(abs(row["shift"]) > 0.06 for row in part))
    largest = sorted((abs(row["shift"]) for row in rows), reverse=True)[int(0.2 * len(rows)) - 1] * (1 - 1e-6)
    part = [row for row in rows if row["token"] == 3]
    share = line(found, "shift-largest", "share of its tokens")
    assert share["metacognitive"] == pytest.approx(mean(abs(row["shift"]) >= largest for row in part))
    ids = dict.fromkeys(row["id"] for row in rows)
    ppl = {id: math.exp(-mean(row["before"] for row in rows if row["id"] == id)) for id in ids}
    low = sorted(ppl.values())[math.ceil(0.2 * len(ppl)) - 1] * (1 + 1e-6)
    part = [row for row in rows if ppl[row["id"]] <= low]
    assert share["PPL lowest 20 %"] == pytest.approx(mean(abs(row["shift"]) >= largest for row in part))
    high = sorted(row["entropy"] for row in rows)[math.ceil(0.8 * len(rows)) - 1]
    part = [row for row in rows if row["entropy"] > high]
    assert share["entropy highest 20 %"] == pytest.approx(mean(abs(row["shift"]) >= largest for row in part))
    cloud = figure_of(found, "shift-perplexity").series
    verified = [id for id in ids if next(row for row in rows if row["id"] == id)["correct"] is not None]
    assert sorted(x for series in cloud for x in series.x) == pytest.approx(
        sorted(ppl[id] for id in verified), rel=1e-5
    )


def test_tokens_that_moved_most(whole):
    rows = every_token()
    found = table_of(analysis_shift.section(open_run(whole)), "shift-tokens")
    sums = {row["token"]: row["sum of changes"] for row in found}
    for token, word in enumerate(WORDS):
        assert sums[repr(word)] == pytest.approx(sum(r["shift"] for r in rows if r["token"] == token), abs=1e-5)
    assert list(sums.values()) == sorted(sums.values(), reverse=True)


# intervene


def test_effects_by_position_and_outcome_leave_out_what_could_not_be_verified(whole):
    found = analysis_intervene.section(open_run(whole))
    tried = [one for step in STEPS for one in zip(*sites(step), strict=True)]
    every = [(site, (kept.successes - other.successes) / K) for site, kept, other in tried if not kept.unscorable]
    wanted = {
        "all positions": every,
        "position below 0.2": [(s, e) for s, e in every if s.position / s.length < 0.2],
        "position from 0.8": [(s, e) for s, e in every if s.position / s.length >= 0.8],
        "response correct": [(s, e) for s, e in every if s.rollout.success],
    }
    told = line(found, "intervene-effects", "effect of a token")
    for name, part in wanted.items():
        assert told[name] == pytest.approx(mean(effect for _, effect in part)), name
    rows = {f"{row['by']} {row['']}".strip(): row for row in table_of(found, "intervene-table")}
    assert rows["all positions"]["positions"] == len(every)
    assert rows["all positions"]["responses"] == len({site.rollout.id for site, _ in every})
    assert "2 positions are excluded" in next(t for t in found.tables).note
    series = figure_of(found, "intervene-effects").series[0]
    assert series.low[0] < series.y[0] < series.high[0]


# what is not whole


def test_a_run_without_analyses_has_no_section(tmp_path):
    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        run.rollouts.write(1, rollouts(1))
    opened = open_run(tmp_path / "run")
    assert [part.section(opened) for part in (analysis_tokens, analysis_shift, analysis_intervene)] == [None] * 3
    (tmp_path / "run/analysis/tokens").mkdir(parents=True)
    assert "has only begun" in analysis_tokens.section(opened).text
    assert opened.notices == []


def test_an_analysis_that_is_not_finished_says_so_and_shows_what_is_there(folder):
    (folder / "analysis/tokens/parts/train-00000003-00000.parquet").unlink()
    opened = open_run(folder)
    found = analysis_tokens.section(opened)
    assert "is not finished: 1 of 2 parts are written" in found.text
    assert table_of(found, "tokens-means")[0]["tokens"] == sum(row["step"] == 1 for row in every_token())
    assert opened.notices == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4:-400] = bytes(len(data) - 404)  # the end can still be read
    path.write_bytes(data)


def foreign(path: Path) -> None:
    write_table(path, token_table("train", 1, [], [], TokensAnalysis()).drop_columns("entropy"))


@pytest.mark.parametrize("harm", [cut, garble, foreign])
def test_a_broken_part_is_excluded_with_a_notice(folder, harm):
    harm(folder / "analysis/tokens/parts/train-00000001-00000.parquet")
    opened = open_run(folder)
    found = analysis_tokens.section(opened)
    (notice,) = opened.notices
    assert "parts/train-00000001-00000.parquet was skipped: it" in notice
    assert notice in found.text
    assert table_of(found, "tokens-means")[0]["tokens"] == sum(row["step"] == 3 for row in every_token())
    harm(folder / "analysis/tokens/parts/train-00000003-00000.parquet")
    assert analysis_tokens.section(open_run(folder)).tables == []


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"parts": 3}', '{"parts": [3]}', "\x00"])
def test_settings_that_cannot_be_read_are_a_notice(folder, text):
    (folder / "analysis/intervene/about.json").write_text(text)
    opened = open_run(folder)
    assert analysis_intervene.section(opened).tables == []
    assert ["about.json is damaged" in notice for notice in opened.notices] == [True]


def test_without_words_there_are_no_categories(folder):
    (folder / "analysis/tokens/vocabulary.parquet").write_text("")
    (folder / "analysis/shift/vocabulary.parquet").unlink()
    assert {row["by"] for row in table_of(analysis_tokens.section(open_run(folder)), "tokens-means")} == {
        "", "outcome", "entropy",
    }  # fmt: skip
    assert [table.id for table in analysis_shift.section(open_run(folder)).tables] == ["shift-moved"]


def test_rollouts_that_are_gone_leave_tokens_of_no_outcome(folder):
    (folder / "rollouts/train-00000001.parquet").unlink()
    found = table_of(analysis_tokens.section(open_run(folder)), "tokens-means")
    counts = {row[""]: row["tokens"] for row in found}
    assert counts["all"] == len(every_token())
    assert counts["correct"] == sum(row["step"] == 3 and row["correct"] is True for row in every_token())


def test_evaluations_of_several_steps_have_the_same_groups_and_each_its_own_verdicts(tmp_path):
    def drawn(step: int) -> list[Rollout]:
        verified = correct("") if step == 1 else incorrect("")
        return [replace(one, group_id="evaluate:p", verdict=verified) for one in rollouts(1)[:2]]

    with RunFolder.create(tmp_path / "run", CONFIG) as run:
        for step in STEPS:
            run.rollouts.write(step, drawn(step), "evaluate")
    options = TokensAnalysis(split="evaluate")
    both = {step: [values(one, 0) for one in drawn(step)] for step in STEPS}
    write(run.path, "tokens", options, lambda s: token_table("evaluate", s, drawn(s), both[s], options))
    counts = {row[""]: row["tokens"] for row in table_of(analysis_tokens.section(open_run(run.path)), "tokens-means")}
    each = sum(len(one.token_ids) for one in drawn(1))
    assert (counts["all"], counts["correct"], counts["not correct"]) == (2 * each, each, each)


def test_of_very_many_parts_some_are_read_and_that_is_said(folder, monkeypatch):
    monkeypatch.setattr(analysis, "_MOST_PARTS", 1)
    found = analysis_tokens.section(open_run(folder))
    assert "1 of 2 parts are read" in found.text
    assert table_of(found, "tokens-means")[0]["tokens"] == sum(row["step"] == 1 for row in every_token())


def test_the_report_has_all_three_and_its_page_and_json_can_be_written(whole):
    report = build(open_run(whole))
    names = [section.id for section in report.sections]
    assert [name for name in names if name.startswith("analysis")] == [
        "analysis-tokens", "analysis-shift", "analysis-intervene",
    ]  # fmt: skip
    assert "Effect of replacing a token" in render(report)
    json.dumps(report.to_json(), allow_nan=False)
