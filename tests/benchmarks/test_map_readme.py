"""README's numbers, and those of other texts: each is that of a bench."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from map_code import BENCHMARKS, PENDING, RESULTS, map_code, rows_of

read, rule, tables = map(map_code, ("_map_read", "_map_rule", "_map_tables"))
SETTINGS = read.done(RESULTS)
README = (BENCHMARKS.parent / "README.md").read_text("utf-8")
TOLD = re.compile(r"([+-]\d\.\d{3}) ±(\.\d{3})")


def readme_rows() -> dict[str, list[str]]:
    """README's first table, by setting."""
    [table] = [part for part in README.split("\n\n") if part.startswith("| setting | recipe |")]
    return {row[0].split("`")[1]: row for row in rows_of(table, "| `")}


def bench_of(name: str) -> tuple[Any, str]:
    """The bench of a row and its recipe: the confirmation, or while that is under way the comparison; see PENDING."""
    setting, recipe = SETTINGS[name], readme_rows()[name][1].split("`")[1]
    return (setting.comparison if name in PENDING else setting.confirmations[-1]), recipe


def test_the_readme_has_a_row_for_every_recommended_recipe() -> None:
    """Without a confirmation only while one is under way; see ``PENDING``."""
    rows = readme_rows()
    recommended = {name for name, setting in SETTINGS.items() if rule.recommended(setting)}
    assert sorted(rows.keys() - recommended) == PENDING
    assert recommended <= rows.keys()
    starred = [name for name, row in rows.items() if row[1].endswith(r"\*")]
    assert sorted(starred) == PENDING, "chosen by the very numbers of the row"


@pytest.mark.parametrize("name", readme_rows())
def test_every_number_of_a_row_of_the_readme_is_that_of_its_bench(name: str) -> None:
    found, recipe = bench_of(name)
    many = read.largest(found)
    assert read.as_grpo(recipe, found), "at equal learning rate and updates a step"
    if name not in PENDING:
        assert recipe == rule.candidate(found)
    of_recipe, of_grpo = (found["recipes"][each] for each in (recipe, "grpo"))
    kept_for_end, k = found["untouched"], many.removeprefix("pass@")

    def written(change: read.Results) -> str:
        return read.change(change).replace("**", "")

    final = kept_for_end["recipes"][recipe]["minus_base"]
    about, *cells = readme_rows()[name]
    assert cells == [
        f"`{recipe}`" + (r"\*" if name in PENDING else ""),
        written(final["pass@1"]),
        f"{written(final[many])} (k = {k})",
        written(of_recipe["minus_base_at_equal_pass@1"][many]),
        f"{tables.times(of_recipe, of_grpo):.1f} times",
    ]
    base, grpo = kept_for_end["before"], kept_for_end["recipes"]["grpo"]["end"]
    shares = {
        f"the base model solves {base[many]['value']:.0%} of the problems in {k} samples, "
        f"GRPO {grpo[many]['value']:.0%}",
        f"{base['pass@1']['value']:.0%} of the base model's samples are correct",
    }
    told = about.partition(": ")[2].replace(" %", "%")
    assert told in shares or not re.search(r"\d", told)
    # below the table
    assert not read.read(final["pass@1"]).excludes_zero
    assert read.read(final[many]).low > 0


def test_the_readme_counts_the_seeds_of_its_table() -> None:
    counts = {name: len(bench_of(name)[0]["recipes"]["grpo"]["seeds"]) for name in readme_rows()}
    assert counts == {"countdown": 5, "sparse": 4, "prose": 5}
    assert "five seeds (four on `sparse`), with 95 % confidence intervals" in README


def known(*places: Path) -> set[tuple[str, str]]:
    texts = (file.read_text("utf-8") for place in places for file in place.glob("**/page.md"))
    return {change for text in texts for change in TOLD.findall(text.replace("**", ""))}


def test_a_change_in_the_readme_is_on_a_page_of_the_map() -> None:
    """With its interval; all of these follow from tallies."""
    found = {*TOLD.findall(README)}
    assert found
    assert found <= known(RESULTS)


@pytest.mark.parametrize("text", ["docs/which-method.md", "CHANGELOG.md"])
def test_a_change_in_another_text_is_on_a_page_of_results(text: str) -> None:
    """Of any version of the map, and of other results."""
    found = {*TOLD.findall((BENCHMARKS.parent / text).read_text("utf-8").replace("**", ""))}
    assert found
    assert found <= known(BENCHMARKS / "results")
