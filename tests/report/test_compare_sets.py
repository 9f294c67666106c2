"""What runs do on the same problems: unsolved sets, answers, branching; and the page, in a browser."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browsing import Tab, chromium
from plain_rows import row, run_of_rows

from outrider.cli import main
from outrider.measure.diversity import words
from outrider.report.compare_command import comparison
from outrider.report.comparing import answers, branching, unsolved
from outrider.report.comparing.cut_runs import cut_at_equal_tokens
from outrider.report.content import Figure, Section, Series
from outrider.report.data import RunData
from outrider.report.page import render

NAMES = ("grpo", "deep-grpo", "dars", "xrpo", "nsr")
LETTERS = ["7", "9", "12", ""]


def samples(name: str, seed: int, problems: int = 24, n: int = 5) -> RunData:
    """Verified samples at the same problems, some of them of no use: timeouts, missing problems, missing samples."""
    rng = np.random.default_rng(seed)
    rows = []
    for p in range(problems):
        rate = max(0.0, p / problems - 0.3)
        for member in range(n - (p == seed)):
            right = rng.random() < rate
            broken = rng.random() < 0.04
            answer = str(rng.choice(LETTERS))
            values = {"level": str(p % 3), "answer": answer, "text": f"so {answer} it is, {rng.integers(3)}"}
            outcome = "timeout" if broken else "correct" if right else "incorrect"
            rows.append(row(split="evaluate", step=0, problem_id=f"p{p}", member=member, outcome=outcome, **values))
    kept = [r for r in rows if r["problem_id"] != f"p{20 + seed}"]
    return replace(run_of_rows(kept), name=name)


def verified(run: RunData, k: int) -> dict[str, list[tuple[bool, str, str]]]:
    """The first ``k`` verified samples at each problem."""
    found: dict[str, list[tuple[bool, str, str]]] = {}
    rows = run.query("SELECT problem_id, outcome, answer, text FROM rollouts ORDER BY member")
    for problem, outcome, *rest in zip(*rows.values(), strict=True):
        if outcome in ("correct", "incorrect"):
            found.setdefault(problem, []).append((outcome == "correct", *rest))
    return {problem: of[:k] for problem, of in found.items()}


@pytest.mark.parametrize("count", [3, 4, 5])
def test_unsolved_sets_are_those_of_asking_problem_by_problem(count):
    runs = [samples(name, seed) for seed, name in enumerate(NAMES[:count])]
    section = unsolved.section(cut_at_equal_tokens(runs)[1])
    k = int(section.title.split()[2])
    first = {run.name: verified(run, k) for run in runs}
    failing: dict[str, list[str]] = {}
    for problem in {p for of in first.values() for p in of}:
        asked = [of.get(problem, []) for of in first.values()]
        hits = [any(right for right, *_ in of) for of in asked]
        if all(hit or len(of) == k for hit, of in zip(hits, asked, strict=True)):
            failing[problem] = [name for name, hit in zip(first, hits, strict=True) if not hit]
    tables = {table.id: table for table in section.tables}
    assert {r[0].problem: r[2].split(", ") for r in tables["members"].rows} == {
        p: who for p, who in failing.items() if who
    }
    assert [r[1] for r in tables["sizes"].rows] == [sum(n in who for who in failing.values()) for n in first]
    assert [r[2] for r in tables["sizes"].rows] == [sum(who == [n] for who in failing.values()) for n in first]
    assert f"{len(failing)} problems are compared; " in section.text
    assert ("regions" in tables, len(section.figures)) == (count < 5, int(count < 5))
    if count < 5:
        (picture,) = section.figures
        for size in range(1, count + 1):
            for region in combinations(first, size):
                expected = sum(tuple(who) == region for who in failing.values())
                at = picture.series[0].x.index(" and ".join(region))
                drawn = {s.name: s.y[at] for s in picture.series}
                assert {name for name, y in drawn.items() if not math.isnan(y)} == set(region)
                assert {y for y in drawn.values() if not math.isnan(y)} == {float(expected)}


def test_more_samples_of_one_run_give_it_no_advantage():
    """A success beyond the samples that all have does not make a problem solved: the others had no such chance."""
    few = [row(split="evaluate", step=0, problem_id=p, member=m) for p in "ab" for m in range(2)]
    many = [
        row(split="evaluate", step=0, problem_id=p, member=m, outcome="correct" if (p, m) == ("a", 3) else "incorrect")
        for p in "ab"
        for m in range(4)
    ]
    runs = [replace(run_of_rows(rows), name=name) for rows, name in ((few, "few"), (many, "many"))]
    section = unsolved.section(cut_at_equal_tokens(runs)[1])
    assert [r[:2] for r in section.tables[0].rows] == [["few", 2], ["many", 2]]
    assert "at most 0.776" in section.text  # 1 - sqrt(0.05)


def test_answers_are_compared_at_equal_numbers_of_samples():
    runs = [samples(name, seed) for seed, name in enumerate(NAMES[:2])]
    section = answers.section(cut_at_equal_tokens(runs)[1])
    both = sorted(set(verified(runs[0], 4)) & set(verified(runs[1], 4)))
    k = 4  # a tenth of the problems have fewer than 5
    for run, line, cells in zip(runs, section.figures[0].series, section.tables[0].rows, strict=True):
        given = [[answer for _, answer, _ in verified(run, k)[p] if answer] for p in both]
        pairs = [[a != b for a, b in combinations(of, 2)] for of in given]
        differ = float(np.mean([np.mean(of) for of in pairs if of]))
        assert line.x == [1, 2, 4]
        assert line.y[0] == pytest.approx(1.0)
        assert line.y[1] == pytest.approx(1 + differ)
        assert cells[1].value == pytest.approx(differ)
        texts = [[tuple(words(text)) for *_, text in verified(run, k)[p]] for p in both]
        repeated = sum(len(of) - len(set(of)) for of in texts) / sum(map(len, texts))
        assert cells[-1] == pytest.approx(repeated)


def test_one_run_alone_with_rollouts_has_nothing_to_be_compared_with():
    _, compared = cut_at_equal_tokens([samples("a", 0), replace(run_of_rows([row(step=1), row(step=2)]), name="b")])
    assert unsolved.section(compared) is None
    assert answers.section(compared) is None


def analysed(folder, sizes: list[list[int]], mass: str = "95") -> RunData:
    parts = folder / "analysis/tokens/parts"
    parts.mkdir(parents=True)
    (folder / "analysis/tokens/about.json").write_text(json.dumps({"model": "trained", "parts": ["x-0"]}))
    keys = [(m, p) for m, of in enumerate(sizes) for p in range(len(of))]
    columns = {"split": ["train"] * len(keys), "step": [7] * len(keys), "member": [0] * len(keys)}
    columns |= {"group_id": [f"g{m}" for m, _ in keys], "position": [p for _, p in keys]}
    columns[f"branching_{mass}"] = [size for of in sizes for size in of]
    pq.write_table(pa.table(columns), parts / "x-0.parquet")
    return in_folder(folder)


def in_folder(folder) -> RunData:
    return replace(run_of_rows([]), name=folder.name, folder=folder)


def test_branching_factors_are_means_over_tokens_and_unfinished_analyses_are_named(tmp_path):
    runs = [analysed(tmp_path / "a", [[1, 2, 6], [3]]), analysed(tmp_path / "b", [[1, 1], [1]])]
    unfinished, damaged = analysed(tmp_path / "c", [[1]]), analysed(tmp_path / "f", [[1]])
    (tmp_path / "c/analysis/tokens/parts/x-0.parquet").unlink()
    (tmp_path / "f/analysis/tokens/parts/x-0.parquet").write_bytes(b"PAR1, truncated")
    without = in_folder(tmp_path / "d")
    section = branching.section([*runs, unfinished, damaged, without])
    assert [(r[0], r[1], r[3], r[4], r[5]) for r in section.tables[0].rows] == [
        ("a", "trained", 2, 4, 3.0),
        ("b", "trained", 2, 3, 1.0),
    ]
    assert section.text.endswith("Not analysed: `c`, `f`, `d`.")
    assert "x-0.parquet was skipped: it is damaged" in damaged.notices[0]
    assert "holds 95 %" in section.text
    assert branching.section([runs[1], analysed(tmp_path / "e", [[2]], mass="99_9")]) is None  # no mass that both have
    assert branching.section([without]) is None


def test_branching_is_over_problems_of_steps_beyond_equal_tokens_too(tmp_path):
    analysed(tmp_path / "a", [[1, 2], [4, 4]])
    one_problem = [row(step=1), row(step=7, group_id="g0"), row(step=7, group_id="g1")]
    spent = {"step": np.array([1.0, 7.0]), "tokens": np.array([10.0, 30.0])}
    long = replace(run_of_rows(one_problem, metrics=spent), name="long", folder=tmp_path / "a")
    short = run_of_rows([row(step=1)], metrics={name: values[:1] for name, values in spent.items()})
    report, _ = comparison([long, replace(short, name="short")])
    (table,) = next(section.tables for section in report.sections if section.id == "branching")
    ((*_, mean, low, high),) = table.rows
    assert (mean, math.isnan(low), math.isnan(high)) == (2.75, True, True)  # no interval over a single problem


# the page: one for all, as a browser takes seconds to read a plotting library


def sets(count: int) -> Figure:
    """A picture whose regions all have sizes of their own: 10, 11, 12, …, the first set alone first."""
    regions = [set(c) for size in range(1, count + 1) for c in combinations(range(count), size)]
    names = [" and ".join(NAMES[i] for i in sorted(region)) for region in regions]
    sizes = [[10.0 + at if i in region else math.nan for at, region in enumerate(regions)] for i in range(count)]
    series = [Series(NAMES[i], names, sizes[i]) for i in range(count)]
    return Figure(f"sets-{count}", "Unsolved", "sets", "runs that fail", "problems", series)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    report, _ = comparison([samples(name, seed) for seed, name in enumerate(NAMES[:2])])
    json.dumps(report.to_json(), allow_nan=False)
    pictures = Section("pictures", "Pictures", "", [sets(3), sets(4)])
    place = tmp_path_factory.mktemp("page") / "compare.html"
    place.write_text(render(replace(report, sections=[*report.sections, pictures])))
    with chromium() as browser:
        opened = Tab(browser).open(place.as_uri(), color_scheme="dark")
        opened.draw_all()
        yield opened


def drawn(tab: Tab, figure: str, what: str):
    return tab.page.evaluate(f"(() => {{ const plot = document.querySelector('#{figure} .plot'); return {what}; }})()")


def test_a_comparison_is_drawn_and_its_findings_come_last(tab):
    chapters = tab.page.evaluate("[...document.querySelectorAll('main > .chapter')].map((c) => c.id)")
    assert chapters[:4] == ["opening", "compared", "deciding", "differences"]
    assert chapters[-1] == "findings"
    assert {"unsolved", "diversity"} <= set(chapters)
    assert tab.page.locator("#contents li").last.inner_text().startswith("Findings")
    assert len(drawn(tab, "unsolved-sets", "plot.layout.shapes")) == 2
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []


def test_three_sets_are_circles_whose_numbers_lie_in_their_regions(tab):
    circles = drawn(tab, "pictures-sets-3", "plot.layout.shapes.map((s) => [s.x0 + 1, s.y0 + 1])")
    numbers = drawn(
        tab, "pictures-sets-3", "plot.data[0].text.map((t, i) => [t, plot.data[0].x[i], plot.data[0].y[i]])"
    )
    assert len(circles) == 3
    expected = [set(c) for size in (1, 2, 3) for c in combinations(range(3), size)]
    assert [int(text) for text, *_ in numbers] == [10 + i for i in range(7)]
    for region, (_, x, y) in zip(expected, numbers, strict=True):
        assert {i for i, (cx, cy) in enumerate(circles) if math.hypot(x - cx, y - cy) < 1} == region


def test_four_sets_are_bars_above_dots_that_fit_on_a_phone(tab):
    assert drawn(tab, "pictures-sets-4", "plot.data[0].y") == list(range(24, 9, -1))  # the largest first
    colours = drawn(tab, "pictures-sets-4", "plot.data.slice(1).map((row) => row.marker.color)")
    nothing = tab.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--rule').trim()")
    members = [[i for i in range(4) if colours[i][bar] != nothing] for bar in range(15)]
    assert members == [list(c) for size in range(1, 5) for c in combinations(range(4), size)][::-1]
    tab.page.set_viewport_size({"width": 360, "height": 800})
    tab.until("document.documentElement.scrollWidth <= 360")


def test_a_set_that_is_removed_leaves_the_regions_of_the_others(tab):
    tab.page.locator("#pictures-sets-3 .legend button").nth(2).click()
    tab.until("document.querySelector('#pictures-sets-3 .plot').layout.shapes.length === 2")
    assert drawn(tab, "pictures-sets-3", "plot.data[0].text.map(Number)") == [10 + 14, 11 + 15, 13 + 16]


def test_dumps_without_texts_and_answers_have_no_diversity(tmp_path, capsys):
    """Nothing is known of repeats then: it is not that there are none."""
    for name in "ab":
        rows = [{"q": f"p{p}", "ok": (p + m) % 3 == 0} for p in range(20) for m in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = [str(tmp_path / f"{name}.jsonl") for name in "ab"]
    assert main(["compare", *files, "--column=problem=q", "--column=success=ok", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "compare.json").read_text())
    assert "diversity" not in {section["id"] for section in report["sections"]}
