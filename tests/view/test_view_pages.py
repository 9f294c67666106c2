"""The pages of the viewer: each answers, says what the rows say, and shows hostile text without running it."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hostile import HOSTILE
from plain_rows import random_rows, row
from tokenizers import Tokenizer
from viewing import RUN, client_of, plain_run

from dumps import one_of_each
from outrider.model.places import model_folder
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.overview import curves, facts, tokens_by_step
from outrider.view.pass_at_k import before_after
from outrider.view.problem import problem_history
from outrider.view.problem_filter import ORDERS, ProblemFilter
from outrider.view.problems import problems
from runs import run_of


@pytest.fixture(scope="module")
def run_of_0_2() -> OpenedRun:
    return OpenedRun(RUN)


def links(text: str) -> set[str]:
    return {html.unescape(link) for link in re.findall(r'href="(/run/[^"]+)"', text)}


def kinds_of_addresses(run: OpenedRun) -> set[str]:
    """The kinds of addresses of a run's pages, each of which was asked a few times and has answered."""
    client, seen, waiting = client_of(run), set[str](), {"/run/0/"}
    kinds: dict[str, int] = {}
    while waiting:
        address = waiting.pop()
        seen.add(address)
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.text[-2000:])
        if "text/html" in answer.headers["content-type"]:
            for link in links(answer.text) - seen:
                kind = " ".join([link.split("?")[0], *sorted(re.findall(r"[?&](\w+)=", link))])
                if kinds.setdefault(kind, 0) < 6:  # of each kind of address a few
                    kinds[kind] += 1
                    waiting.add(link)
    return {kind.split()[0] for kind in kinds}


def test_every_link_of_every_page_answers(run_of_0_2: OpenedRun) -> None:
    assert kinds_of_addresses(run_of_0_2) == {
        f"/run/0/{name}" for name in ("rollouts", "rollout", "problems", "problem", "pair", "export")
    }


def test_a_dump_of_every_importer_can_be_browsed(tmp_path: Path) -> None:
    for name, path in one_of_each(tmp_path).items():
        run = OpenedRun(path)
        kinds = kinds_of_addresses(run)
        assert {f"/run/0/{page}" for page in ("rollouts", "rollout", "problem")} <= kinds, name
        first = run.rows("SELECT * FROM seen")[0]
        asked = {"split": first["split"], "step": first["step"], "id": f"{first['group_id']}/{first['member']}"}
        page = client_of(run).get("/run/0/rollout", params=asked).text
        text = run.rows("SELECT text FROM texts")[0]["text"]
        assert (html.escape(text) if text else "(no text in this dump)") in page, name


def tokens_of_page(page: str) -> list[list[Any]]:
    return json.loads(re.search(r'id="token-data">(.*?)</script>', page)[1])["tokens"]


def test_a_rollout_shows_its_tokens_and_their_numbers(run_of_0_2: OpenedRun) -> None:
    client = client_of(run_of_0_2)
    first = run_of_0_2.rows("SELECT * FROM seen WHERE split = 'train' ORDER BY step, group_id, member LIMIT 1")[0]
    asked = {"split": "train", "step": first["step"], "id": f"{first['group_id']}/{first['member']}"}
    page = client.get("/run/0/rollout", params=asked).text
    data = tokens_of_page(page)
    record = run_of_0_2.rows(
        "SELECT token_ids, logprobs, entropies, trainable, text FROM files WHERE filename = ? AND file_row_number = ?",
        [first["file"], first["row"]],
    )[0]
    assert [token[1] for token in data] == record["token_ids"]
    assert "".join(token[0] for token in data if token[0] not in ("<s>", "</s>")) == record["text"]
    for place, name in ((3, "logprobs"), (4, "entropies")):
        told = [math.nan if token[place] is None else token[place] for token in data]
        assert told == pytest.approx(record[name], rel=1e-3, nan_ok=True)
    assert [token[2] == 1 for token in data] == record["trainable"]
    # a run of 0.2 kept one advantage for all tokens
    assert {(token[2], token[5]) for token in data} == {(1, first["advantage"]), (0, None)}


def test_hostile_text_is_shown_and_nothing_else(tmp_path: Path) -> None:
    text = HOSTILE.replace("\ud800", "")  # Parquet has no lone surrogates
    rows = [
        row(step=step, member=member, problem_id=text, prompt=text, text=text, outcome=outcome)
        | {"answer": "</script>", "detail": "<b>", "level": "<i>"}
        for step in (1, 2)
        for member, outcome in ((0, "correct"), (1, "incorrect"))
    ]
    client = client_of(OpenedRun(plain_run(tmp_path, rows)))
    waiting, seen = {"/run/0/", "/run/0/rollouts", "/run/0/problems", "/run/0/findings"}, set[str]()
    while waiting:
        address = waiting.pop()
        seen.add(address)
        page = client.get(address)
        assert page.status_code == 200, address
        if "text/html" in page.headers["content-type"]:
            for mark in ("<script>window", "<img src=x", "<svg onload", "<a href='https", "\x00", "\x1b["):
                assert mark not in page.text, (address, mark)
            assert "{{ 7 * 7 }}" in page.text or "window.hurt" not in page.text, address  # no template's 49
            waiting |= {link for link in links(page.text) if "export" not in link} - seen
    assert any("pair" in address for address in seen)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_export_holds_the_filtered_rows(tmp_path: Path, form: str) -> None:
    rows = random_rows(5)
    client = client_of(OpenedRun(plain_run(tmp_path, rows)))
    answer = client.get("/run/0/export", params={"format": form, "verdict": "correct", "sort": "-tokens"})
    assert answer.status_code == 200
    kept = sorted((each for each in rows if each["outcome"] == "correct"), key=lambda each: -each["tokens"])
    if form == "csv":
        found = list(csv.DictReader(io.StringIO(answer.text)))
    elif form == "jsonl":
        found = [json.loads(line) for line in answer.text.splitlines()]
    else:
        found = pq.read_table(io.BytesIO(answer.content)).to_pylist()
    assert [int(each["tokens"]) for each in found] == [each["tokens"] for each in kept]
    assert {each["text"] for each in found} == {each["text"] for each in kept}


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/nothing", 404, "There is no page /nothing"),
        ("/run/7/", 400, "run 7 does not exist"),
        ("/run/0/rollout?step=1&id=x", 400, "a rollout needs split, step and id"),
        ("/run/0/rollout?split=train&step=999&id=x/0", 400, "has no train rollout x/0 of step 999"),
        ("/run/0/problem?id=none-such", 400, "has no rollout of problem"),
        ("/run/0/problems?order=largest+drp", 400, "did you mean"),
        ("/run/0/problems?kind=loost", 400, "did you mean"),
        ("/run/0/problems?used=held+out", 400, "unknown filter 'used' of problems"),
        ("/run/0/rollouts?step=a", 400, "should be a number or a range"),
        ("/run/0/export?format=xls", 400, "there is no format"),
        ("/static/..%2f..%2fapplication.py", 404, "There is no page"),
        ("/static/base.html", 404, "There is no such file"),
    ],
)
def test_a_wrong_address_gets_one_sentence(run_of_0_2: OpenedRun, address: str, status: int, says: str) -> None:
    answer = client_of(run_of_0_2).get(address)
    assert answer.status_code == status
    assert says in html.unescape(answer.text)


def test_a_problem_that_was_solved_early_and_lost_later_comes_first(tmp_path: Path) -> None:
    def at(split: str, step: int, problem: str, successes: int, n: int = 8) -> list[dict[str, object]]:
        return [
            row(
                split=split,
                step=step,
                problem_id=problem,
                member=i,
                outcome="correct" if i < successes else "incorrect",
            )
            for i in range(n)
        ]

    rows = [
        *at("evaluate", 0, "lost", 6), *at("evaluate", 9, "lost", 0),
        *at("evaluate", 0, "won", 0), *at("evaluate", 9, "won", 8),
        *(each for step, k in ((1, 4), (2, 3), (5, 0), (7, 0)) for each in at("train", step, "lost", k)),
        *(each for step in (1, 4) for each in at("train", step, "never", 0)),
    ]  # fmt: skip
    run = OpenedRun(plain_run(tmp_path, rows))
    found = problems(run, ProblemFilter())
    assert found.total == 3
    told = {"change": -0.75, "steps_since": 1, "first_success": 0, "last_success": 0, "split": "evaluate"}
    assert found.rows[0] | {"problem_id": "lost", "kind": "lost", **told} == found.rows[0]
    assert problems(run, ProblemFilter(order="largest gain")).rows[0]["problem_id"] == "won"
    assert all(len(problems(run, ProblemFilter(order=order)).rows) == 3 for order in ORDERS)
    assert problem_history(run, "lost").story == (
        "Training solved it first in step 1, last in step 2, in 2 of 4 steps with rollouts of it; 2 later steps had no "
        "success. Evaluations solved it 6 of 8 times (75.0 %) at step 0 and 0 of 8 times (0.0 %) at step 9; the last "
        "success is at step 0."
    )
    assert problem_history(run, "never").story == "Training sampled it in 2 steps and never solved it."
    assert problem_history(run, "won").story == (
        "Training did not sample it. Evaluations solved it 0 of 8 times (0.0 %) at step 0 and 8 of 8 times (100.0 %) "
        "at step 9."
    )


def test_several_runs_are_shown_beside_each_other(tmp_path: Path) -> None:
    one, other = (
        [row(split="evaluate", step=0, problem_id=p, member=i, outcome="correct" if p == solved else "incorrect")
         for p in "ab" for i in range(4)]
        for solved in "ab"
    )  # fmt: skip
    runs = [OpenedRun(plain_run(tmp_path, rows, name)) for rows, name in ((one, "one"), (other, "other"))]
    page = client_of(*runs).get("/").text
    for problem in "ab":
        rates = re.search(rf'<td class="text"><a href="[^"]*">{problem}</a></td>.*?</tr>', page, re.S)[0]
        assert re.findall(r"([\d.]+) %", rates) == (["100.0", "0.0"] if problem == "a" else ["0.0", "100.0"])
    assert client_of(*runs).get("/run/1/").status_code == 200


def test_a_run_is_viewed_from_python() -> None:
    from urllib.request import urlopen

    from outrider import load_run

    viewer = load_run(RUN).view()
    try:
        with urlopen(viewer.address + "run/0/version") as answer:
            assert json.load(answer)["version"] == OpenedRun(RUN).version
        assert f'<iframe src="{viewer.address}"' in viewer._repr_html_()
    finally:
        viewer.close()
        viewer.close()
    with pytest.raises(OSError, match="refused"):
        urlopen(viewer.address)


def test_alternatives_of_an_analysis_stand_beside_their_tokens(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    run = OpenedRun(folder)
    first = run.rows("SELECT * FROM seen WHERE split = 'train' ORDER BY step, group_id, member LIMIT 1")[0]
    keys = {name: [first[name]] for name in ("split", "step", "group_id", "member")}
    ids = run.rows(
        "SELECT token_ids FROM files WHERE filename = ? AND file_row_number = ?", [first["file"], first["row"]]
    )
    token = ids[0]["token_ids"][1]
    found = keys | {"position": [1 + first["branch_at"]], "token_id": [token]}
    found |= {"alternative_id": [7], "alternative_logprob": [-1.5], "logprob": [-1.0], "sampled_logprob": [-2.0]}
    parts = folder / "analysis" / "tokens" / "parts"
    parts.mkdir(parents=True)
    pq.write_table(pa.table(found), parts / "train-1-0.parquet")
    (parts.parent / "about.json").write_text('{"model": "step-<40>"}')
    asked = {"split": "train", "step": first["step"], "id": f"{first['group_id']}/{first['member']}"}
    page = client_of(run).get("/run/0/rollout", params=asked).text
    data = tokens_of_page(page)
    text = Tokenizer.from_file(f"{model_folder('base:countdown')}/tokenizer.json").decode([7])
    assert [token[6] for token in data] == [[text, -1.5, 2.718] if i == 1 else None for i in range(len(data))]
    assert "ratio of policy step-&lt;40&gt;" in page
    pq.write_table(pa.table(found | {"token_id": [token + 1]}), parts / "train-1-0.parquet")
    page = client_of(run).get("/run/0/rollout", params=asked).text  # of another text
    assert "-1.5" not in re.search(r'id="token-data">(.*?)</script>', page)[1]


def evaluated(problem: str, step: int, successes: int, n: int = 8, group: str = "", **rest: object) -> list[Row]:
    return [
        row(split="evaluate", step=step, problem_id=problem, member=i, outcome=("incorrect", "correct")[i < successes])
        | ({"group_id": group} if group else {})
        | rest
        for i in range(n)
    ]


def test_a_problem_that_was_solved_between_is_lost_and_not_never_solved(tmp_path: Path) -> None:
    rows = [each for step, k in ((0, 0), (5, 8), (9, 0)) for each in evaluated("between", step, k)]
    rows += [each for step in (0, 5, 9) for each in evaluated("never", step, 0)]
    rows += [each for step in (0, 9) for each in evaluated("half", step, 4)]
    run = OpenedRun(plain_run(tmp_path, rows))
    first = problems(run, ProblemFilter()).rows[0]
    assert (first["problem_id"], first["kind"], first["use"], first["change"]) == ("between", "lost", "held out", 0.0)
    assert (first["first_success"], first["last_success"], first["steps_since"]) == (5, 5, 1)
    page = client_of(run).get("/run/0/problems").text
    told = dict(re.findall(r'data-name="([^"]+)">([^<]*)<', page.partition("between")[2].partition("</tr>")[0]))
    assert told["solved in"] == "step 5"
    assert (told["first"], told["best"], told["last"], told["change"]) == ("0.0 %", "100.0 %", "0.0 %", "0.0")
    never = problems(run, ProblemFilter({"kind": "never solved"}))
    assert [row["problem_id"] for row in never.rows] == ["never"]
    assert problem_history(run, "between").story.endswith("at step 9; the last success is at step 5.")


def test_groups_of_one_step_are_one_step_and_yardsticks_are_none(tmp_path: Path) -> None:
    rows = [*evaluated("p", 3, 2, group="a"), *evaluated("p", 3, 4, group="b")]
    rows += evaluated("p", 3, 8, group="c", stage="0-greedy")
    run = OpenedRun(plain_run(tmp_path, rows))
    story = "Training did not sample it. The evaluation of step 3 solved it 6 of 16 times (37.5 %)."
    assert problem_history(run, "p").story == story
    assert problems(run, ProblemFilter()).rows[0]["first_rate"] == 6 / 16


def test_a_filter_of_many_values_is_a_field(tmp_path: Path) -> None:
    rows = [row(step=i, problem_id=f"p{i}", level=str(i)) for i in range(60)]
    page = client_of(OpenedRun(plain_run(tmp_path, rows))).get("/run/0/rollouts?level=59").text
    assert '<input name="level" value="59"' in page
    assert "<b>1</b> rollout," in page


def test_a_run_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    path = plain_run(tmp_path)
    client = client_of(OpenedRun(path))
    path.unlink()
    answer = client.get("/run/0/rollouts")
    assert answer.status_code == 500
    assert "The rollouts could not be read" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_the_time_of_training_is_that_of_its_phases(run_of_0_2: OpenedRun) -> None:
    steps = [json.loads(line) for line in (RUN / "timing.jsonl").read_text().splitlines()]
    apart = ("step", "evaluate", "tokens_per_second")
    seconds = sum(value for step in steps for name, value in step.items() if name not in apart and value is not None)
    assert facts(run_of_0_2)["time of training"] == f"{seconds:,.0f} seconds"


def test_the_time_of_evaluation_is_that_of_all_evaluations_and_excluded_where_it_was_not_kept(
    tmp_path: Path, run_of_0_2: OpenedRun
) -> None:
    assert "time of evaluation" not in facts(run_of_0_2)
    with run_of(tmp_path / "run", 2) as folder:
        folder.write_evaluation(0, {}, 100.0)
        folder.write_evaluation(2, {}, 80.0)
    assert facts(OpenedRun(tmp_path / "run"))["time of evaluation"] == "3 minutes"


def test_before_and_after_of_a_dump_are_counted_from_its_rollouts(tmp_path: Path) -> None:
    rows = [each for step, k in ((0, 2), (9, 4)) for each in evaluated("a", step, k)]
    rows += [each for step, k in ((0, 0), (9, 8)) for each in evaluated("b", step, k)]
    rows += evaluated("a", 9, 0, group="greedy", stage="evaluate-greedy")  # a yardstick
    found = before_after(OpenedRun(plain_run(tmp_path, rows)))
    assert found is not None
    assert found.names == ["step 0", "step 9"]
    of = {name: [one.value for one in each if one] for name, each in found.rows.items()}
    assert of["pass@1"] == pytest.approx([(2 / 8 + 0) / 2, (4 / 8 + 1) / 2])
    assert of["pass@2"] == pytest.approx([(1 - 6 * 5 / (8 * 7)) / 2, (1 - 4 * 3 / (8 * 7) + 1) / 2])
    assert list(of) == ["pass@1", "pass@2", "pass@4", "pass@8"]


def test_models_of_one_dump_are_distinguished_and_are_no_before_and_after(tmp_path: Path) -> None:
    rows = [
        row(split="evaluate", step=0, problem_id=f"{model}/p{p}", member=m, model=model, test_set=f"set{p % 2}")
        | {"outcome": "correct" if m < c else "incorrect"}
        for model, c in (("<i>a", 1), ("b", 3))
        for p in range(6)
        for m in range(4)
    ]
    run = OpenedRun(plain_run(tmp_path, rows))
    found = before_after(run)
    assert found is not None
    assert (found.names, found.by_model, found.paired) == (["<i>a", "b"], True, False)
    assert [one.value for one in found.rows["pass@1"]] == [0.25, 0.75]
    client = client_of(run)
    overview = client.get("/run/0/").text
    assert "pass@k, by model" in overview
    assert "&lt;i&gt;a" in overview
    assert "before and after" not in overview
    chosen = client.get("/run/0/rollouts?model=b&test_set=set1").text
    assert "<b>12</b> rollouts" in chosen
    assert ">test set<select" in chosen


def test_without_evaluations_before_and_after_are_the_ends_of_training(tmp_path: Path) -> None:
    rows = [
        row(step=step, problem_id=f"p{problem}", member=i, outcome=("incorrect", "correct")[i < (step > 5) * 2])
        for step in range(1, 11)
        for problem in range(3)
        for i in range(4)
    ]
    others = ({"member": 8, "parent": "x/0"}, {"member": 9, "stage": "1-more"}, {"member": 10, "context": "seeded"})
    branches = [one | {"outcome": "correct"} | other for one in rows for other in others]
    found = before_after(OpenedRun(plain_run(tmp_path, rows + branches)))
    assert found is not None
    assert found.names == ["first steps", "last steps"]
    assert "first and of the last 2 training steps" in found.note
    assert [one.value for one in found.rows["pass@1"] if one] == [0.0, 0.5]
    nothing = [one | {"outcome": None} for one in rows]
    assert before_after(OpenedRun(plain_run(tmp_path, nothing, "nothing"))) is None


def test_curves_over_tokens_stand_where_training_had_spent_them(run_of_0_2: OpenedRun) -> None:
    spent = tokens_by_step(run_of_0_2)
    per_step = {
        one["step"]: one["n"]
        for one in run_of_0_2.rows("SELECT step, sum(tokens) AS n FROM seen WHERE split = 'train' GROUP BY step")
    }
    assert spent == {step: sum(n for other, n in per_step.items() if other <= step) for step in per_step}
    by_step, by_tokens = ({one.id: one for one in curves(run_of_0_2, over)} for over in ("step", "tokens"))
    for id, figure in by_step.items():
        for series, other in zip(figure.series, by_tokens[id].series, strict=True):
            assert other.x == [spent.get(step, 0) for step in series.x]
            assert other.y is series.y
    refused = client_of(run_of_0_2).get("/run/0/?over=time")
    assert refused.status_code == 400
    assert "but should be step or tokens" in html.unescape(refused.text)


def test_a_problem_has_what_was_predicted_and_what_other_runs_did(tmp_path: Path) -> None:
    rows = [
        row(step=step, problem_id="p", member=i, outcome="correct", predicted=0.25) for step in (1, 2) for i in (0, 1)
    ]
    other = [row(step=3, problem_id="p", member=0, outcome="incorrect")]
    runs = [
        OpenedRun(plain_run(tmp_path, each, f"run{i}")) for i, each in enumerate((rows, other, [row(problem_id="q")]))
    ]
    assert [step.predicted for step in problem_history(runs[0], "p").steps] == [0.25, 0.25]
    page = client_of(*runs).get("/run/0/problem", params={"id": "p"}).text
    assert page.count('class="predicted"') == 2
    assert "Training sampled it in 1 step and never solved it." in page
    assert "This run has no rollout of this problem." in page


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUN, tmp_path / "run"))
    assert "state" not in facts(OpenedRun(folder)) or not (folder / "model").is_dir()
    shutil.rmtree(folder / "model", ignore_errors=True)
    hour_ago = time.time() - 3600
    os.utime(folder / "metrics.jsonl", (hour_ago, hour_ago))
    assert facts(OpenedRun(folder))["state"] == "not finished, last written 60 minutes ago"


def test_notices_of_a_run_stand_on_the_page_of_several(tmp_path: Path, run_of_0_2: OpenedRun) -> None:
    (tmp_path / "rollouts").mkdir()
    shutil.copy(plain_run(tmp_path), tmp_path / "rollouts" / "a.parquet")
    (tmp_path / "rollouts" / "b.parquet").write_bytes(b"PAR1 no")
    page = client_of(run_of_0_2, OpenedRun(tmp_path)).get("/").text
    assert "1 note on the files read" in page
    assert "b.parquet was skipped" in page


def test_tokens_that_a_dump_does_not_say_are_not_counted_as_none(tmp_path: Path) -> None:
    unknown = [row(step=step, member=i, tokens=None, outcome="correct") for step in (1, 2) for i in (0, 1)]
    run = OpenedRun(plain_run(tmp_path, unknown))
    assert facts(run)["training"] == "2 steps, 4 rollouts"
    page = client_of(run).get("/run/0/").text
    assert "0 tokens" not in page
    assert "over generated tokens" not in page
    assert [step.tokens for step in problem_history(run, "p").steps] == [None, None]


def test_checks_without_a_fault_say_what_they_are_and_lead_to_pass_at_k(tmp_path: Path) -> None:
    rows = [each for i in range(40) for step, k in ((0, 4), (9, 3)) for each in evaluated(f"p{i}", step, k)]
    rows = [each | {"text": f"it is {at}"} for at, each in enumerate(rows)]
    client = client_of(OpenedRun(plain_run(tmp_path, rows)))
    while "are running" in (page := client.get("/run/0/findings").text):
        time.sleep(0.05)
    assert "found no problem. They do not show whether the model became better or worse" in page
    assert '<a href="#measured">see pass@k, before and after</a>' in page
    assert re.search(r"Checked: [^.]*dead prompts", page)
    assert "A fall of pass@k is reported only with a rise of pass@1" in page
    assert re.search(r"Not checked: [a-z ,]+ \(needs at least 20 training steps \(the run has 0\)\)", page)
    assert 'id="measured"' in client.get("/run/0/").text
