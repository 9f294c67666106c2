"""What the documentation shows runs."""

import re
import textwrap
from pathlib import Path

import pytest

from outrider.config import load_recipe
from outrider.explore import STAGES, Stage, Uniform
from test_stages import RULES, WORLDS, Case, Life

PAGE = Path(__file__).parents[1] / "docs/add-a-stage.md"


@pytest.fixture(scope="module")
def case() -> Case:
    code, line = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) < 60
    assert "from outrider.explore import" not in code  # the package imports the file in which this is to stand
    names: dict = {"Case": Case}
    exec(compile(code, str(PAGE), "exec"), names)
    assert issubclass(names["Retry"], Stage)
    exec(f"cases = {{{line}}}", names)
    return names["cases"]["retry"]


def test_the_recipe_of_the_page_has_the_stage(case, tmp_path, monkeypatch) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "mine.yaml").write_text(textwrap.dedent(text))
    monkeypatch.setitem(STAGES, "retry", type(case.stage()))
    uniform, retry = load_recipe(str(tmp_path / "mine.yaml")).explore
    assert (type(uniform), uniform.n, type(retry).__name__, retry.n) == (Uniform, 8, "Retry", 4)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_stage_of_the_page_keeps_every_rule(case, world) -> None:
    life = Life(case, world)
    for rule in RULES:
        rule(life)
