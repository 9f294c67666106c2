"""What the documentation shows runs."""

import re
from pathlib import Path

import pytest

from outrider.explore import Stage
from test_stages import RULES, WORLDS, Case, Life

PAGE = Path(__file__).parents[1] / "docs/add-a-stage.md"


@pytest.fixture(scope="module")
def case() -> Case:
    code, line = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) < 60
    names: dict = {"Case": Case}
    exec(compile(code, str(PAGE), "exec"), names)
    assert issubclass(names["Retry"], Stage)
    exec(f"cases = {{{line}}}", names)
    return names["cases"]["retry"]


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_stage_of_the_page_keeps_every_rule(case, world) -> None:
    life = Life(case, world)
    for rule in RULES:
        rule(life)
