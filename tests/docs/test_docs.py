"""What the documentation shows runs."""

import re
import textwrap
from pathlib import Path

import credit_cases
import pytest
import test_credit_matrix
import test_objective_matrix
from stage_cases import Case
from worked_steps import Worked, check_by_hand

from compare.__main__ import NOT_COMPARED, TABLES
from outrider.config import load_recipe
from outrider.credit import Members
from outrider.explore import Stage, Uniform, View
from outrider.testing.credit import CreditClaims
from outrider.testing.situations import SITUATIONS
from outrider.testing.stages import STAGE_LAWS, Life

PAGE = Path(__file__).parents[2] / "docs/add-a-stage.md"


@pytest.fixture(scope="module")
def case() -> Case:
    code, line = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) < 60
    names: dict = {"Case": Case, "Worked": Worked}
    exec(compile(code, str(PAGE), "exec"), names)
    assert issubclass(names["Retry"], Stage)
    exec(f"cases = {{{line}}}", names)
    return names["cases"]["retry"]


def test_the_recipe_of_the_page_takes_the_stage_of_its_file(tmp_path, monkeypatch) -> None:
    code, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_methods.py").write_text(code)
    (tmp_path / "mine.yaml").write_text(text)
    uniform, retry = load_recipe("mine.yaml").explore
    assert uniform == Uniform(n=8)
    assert (type(retry).__name__, retry.n) == ("Retry", 4)


def test_the_recipes_of_the_page_take_the_shaper_and_the_loss_of_its_file(tmp_path, monkeypatch) -> None:
    text = (PAGE.parent / "add-a-component.md").read_text()
    shaper, loss = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_methods.py").write_text(shaper + loss.replace("from __future__ import annotations\n", ""))
    of_shaper, of_loss = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    for name, recipe in (("shaper", of_shaper), ("loss", of_loss)):
        (tmp_path / f"{name}.yaml").write_text(recipe)
    assert load_recipe("shaper.yaml").credit["main"][1].weight == 2.0
    assert load_recipe("loss.yaml").objective.surrogate.high == 0.28


def test_the_shaper_and_the_surrogate_of_the_page_keep_every_rule() -> None:
    text = (PAGE.parent / "add-a-component.md").read_text()
    names: dict = {"Case": credit_cases.Case, "Slopes": test_objective_matrix.Slopes, "cases": {}}
    for block in re.findall(r"^ *```python\n(.*?)```", text, re.DOTALL | re.MULTILINE):
        code = textwrap.dedent(block)
        line = re.match(r'"\w', code)  # of a table of cases
        exec(f"cases |= {{{code}}}" if line else code, names)
    assert list(names["cases"]) == ["rarity", "two_sided"]
    for rule in test_credit_matrix.RULES.values():
        rule(names["cases"]["rarity"])
    for rule in test_objective_matrix.SURROGATE_RULES.values():
        rule(names["cases"]["two_sided"])


def test_the_stage_of_the_page_does_what_was_worked_by_hand(case) -> None:
    (worked,) = case.by_hand
    check_by_hand(case.stage(), worked)


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
def test_the_stage_of_the_page_keeps_every_law(case, situation) -> None:
    life = Life(case.claims, situation)
    for law in STAGE_LAWS.values():
        law(life)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("add-a-stage.md", View.__dataclass_fields__),
        ("add-a-component.md", Members.__dataclass_fields__),
        ("testing.md", CreditClaims._fields[1:]),
    ],
)
def test_a_table_names_every_field(page, names) -> None:
    rows = [line.split("|")[1] for line in (PAGE.parent / page).read_text().splitlines() if line.startswith("| `")]
    told = {name.partition("(")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert not set(names) - told


def test_the_page_of_the_comparison_has_every_line_of_it() -> None:
    """Its numbers need verl and TRL (``test_comparison.py``); which lines there are, and why they differ, does not."""
    text = (PAGE.parent / "comparison.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    there = [(row[0], row[1], re.sub(r" ?\([\d.e-]+\)$", "", row[3])) for row in rows if row[0] != "theirs"]
    assert there == [(line.theirs, line.ours, line.why) for _, _, table in TABLES for line in table]
    assert text.endswith(NOT_COMPARED)
    silent = [row for row in rows if row[0] != "theirs" and float(row[2]) > 1e-6 and not row[3]]
    assert not silent


def test_the_glossary_has_at_most_thirty_words_in_order_and_once_each() -> None:
    words = re.findall(r"^\| ([a-z ]+) \|", (PAGE.parent / "glossary.md").read_text(), re.MULTILINE)[1:]
    assert 20 <= len(words) <= 30
    assert words == sorted(set(words))
