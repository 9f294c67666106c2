"""Components from outside the package: how a recipe names them, what a run keeps of them, and what is refused."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider import plugins
from outrider.cli import main
from outrider.config import Recipe, dump_yaml, load_recipe, recipe_of_run
from outrider.config.component_list import list_components
from outrider.errors import UserError
from outrider.explore import Stage, Uniform, View
from outrider.importing import load_object
from outrider.record import SampleRequest

METHODS = Path(__file__).parent.parent / "outside" / "methods.py"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The author's folder, in which the commands run."""
    (tmp_path / "methods.py").write_text(METHODS.read_text())
    monkeypatch.chdir(tmp_path)
    plugins.plugins.cache_clear()
    yield tmp_path
    plugins.plugins.cache_clear()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Makes installed packages with entry points: of each a name, and its components by name."""

    def install(package: str, **components: str) -> None:
        info = tmp_path / f"{package}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        lines = [f"{name} = {where}" for name, where in components.items()]
        (info / "entry_points.txt").write_text("[outrider.components]\n" + "\n".join(lines))
        (info / "RECORD").write_text(f"{package}.py,,\n")
        (tmp_path / f"{package}.py").write_text(METHODS.read_text())
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, package, raising=False)
        importlib.invalidate_caches()
        plugins.plugins.cache_clear()

    return install


def sentence(*overrides: str) -> str:
    with pytest.raises(UserError) as found:
        load_recipe("grpo", overrides)
    return str(found.value)


def test_a_recipe_names_components_of_a_file_with_options() -> None:
    recipe = load_recipe(
        "grpo",
        [
            "explore=[uniform,{methods.py:Retry: {n: 3}}]",
            "credit.main=[methods.py:Median,{methods.py:Half: {share: 0.25}}]",
            "objective.surrogate=methods.py:Plain",
        ],
    )
    retry, half = recipe.explore[1], recipe.credit["main"][1]
    assert (type(retry).__name__, retry.n, half.share) == ("Retry", 3, 0.25)
    written = recipe.resolved()
    assert written["explore"][1] == {"methods.py:Retry": {"n": 3}}
    assert written["credit"]["main"] == [{"methods.py:Median": {}}, {"methods.py:Half": {"share": 0.25}}]
    assert written["objective"]["surrogate"] == {"methods.py:Plain": {}}
    assert recipe_of_run(written) == recipe


def test_an_option_of_such_a_component_is_set_by_its_place() -> None:
    both = ["explore=[uniform,methods.py:Retry]", "explore.1.n=7"]
    assert load_recipe("grpo", both).explore[1].n == 7


def test_a_module_that_can_be_imported_is_named_with_a_dot(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "my_package").mkdir()
    (here / "my_package" / "retry.py").write_text(METHODS.read_text())
    monkeypatch.syspath_prepend(str(here))
    recipe = load_recipe("grpo", ["explore=[uniform,my_package.retry:Retry]"])
    assert recipe.resolved()["explore"][1] == {"my_package.retry:Retry": {"n": 4}}
    assert recipe.components["my_package.retry:Retry"].source


class Twice(Stage):
    """Defined where it is used."""

    def plan(self, view: View) -> list[SampleRequest]:
        return [] if view.round else [SampleRequest(problem, n=2) for problem in view.take(view.problems)]


def test_python_takes_an_instance_and_copies_it() -> None:
    """The copy: two recipes of one instance would share its state."""
    data, mine = load_recipe("grpo").resolved(), Twice()
    one, two = (Recipe.model_validate(data | {"explore": [mine]}) for _ in range(2))
    assert type(one.explore[0]) is Twice
    assert one.explore[0] is not two.explore[0]
    assert one.explore[0] is not mine
    assert one.resolved()["explore"] == [{f"{__name__}:Twice": {}}]


def test_an_instance_of_another_kind_is_refused() -> None:
    data = load_recipe("grpo").resolved()
    with pytest.raises(ValueError, match="'Uniform' is not a credit component"):
        Recipe.model_validate(data | {"credit": {"main": [Uniform()]}})


def test_a_run_keeps_where_components_come_from_and_a_shipped_recipe_keeps_nothing(here: Path) -> None:
    recipe = load_recipe("grpo", ["explore=[uniform,methods.py:Retry]"])
    assert recipe.resolved()["components"] == {
        "methods.py:Retry": {
            "where": "methods.py:Retry",
            "distribution": "",
            "source": recipe.components["methods.py:Retry"].source,
        }
    }
    assert "components" not in load_recipe("grpo").resolved()


def test_another_source_is_a_difference_from_the_run_and_the_recipe_records_the_new_one(here: Path) -> None:
    words = ["explore=[uniform,methods.py:Retry]"]
    before = load_recipe("grpo", words).resolved()
    (here / "methods.py").write_text(METHODS.read_text().replace("view.round > 0", "view.round >= 1"))
    now = load_recipe("grpo", words)
    [line] = recipe_of_run(before).difference(now)
    assert line.startswith("components.methods.py:Retry.source: ")
    assert recipe_of_run(before).fingerprint() != now.fingerprint()


def test_the_configuration_of_a_run_is_a_recipe_that_records_anew(here: Path) -> None:
    recipe = load_recipe("grpo", ["explore=[uniform,methods.py:Retry]"])
    old = recipe.resolved()
    old["components"]["methods.py:Retry"]["source"] = "another"
    (here / "config.yaml").write_text(dump_yaml(old))
    again = load_recipe("config.yaml")
    assert again.components == recipe.components


def test_a_class_of_a_file_is_pickled_by_its_path(here: Path) -> None:
    """As for other ranks, and for the processes that verify."""
    stage = load_recipe("grpo", ["explore=[uniform,{methods.py:Retry: {n: 3}}]"]).explore[1]
    stage._rescued = 5
    (here / "stage.pickle").write_bytes(pickle.dumps(stage))
    code = "import pickle, outrider.plugins; s = pickle.load(open('stage.pickle', 'rb')); print(s.n, s._rescued)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "3 5\n"
    assert type(pickle.loads(pickle.dumps(stage))) is type(stage)
    assert pickle.loads(pickle.dumps(Uniform)) is Uniform


def test_a_file_is_loaded_once_for_each_content(here: Path) -> None:
    first = load_object("methods.py:Retry")
    assert load_object("methods.py:Retry") is first
    (here / "methods.py").write_text(METHODS.read_text().replace("Field(4,", "Field(5,"))
    assert load_object("methods.py:Retry")().n == 5


def test_the_run_of_a_component_that_is_gone_is_said_to_be_so(here: Path) -> None:
    before = load_recipe("grpo", ["explore=[uniform,methods.py:Retry]"]).resolved()
    (here / "methods.py").unlink()
    with pytest.raises(UserError, match=r"of the run cannot be read: explore.1: stage .*: no such file"):
        recipe_of_run(before)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (
            ["explore=[methods.py:Retri]"],
            "explore.0: stage 'methods.py:Retri': methods.py has no 'Retri' (did you mean 'R",
        ),
        (["explore=[other.py:Retry]"], "explore.0: stage 'other.py:Retry': no such file (looked in "),
        (
            ["explore=[nowhere.at.all:Retry]"],
            "explore.0: stage 'nowhere.at.all:Retry': no module 'nowhere' is installed",
        ),
        (
            ["explore=[methods.py:Half]"],
            "explore.0: 'methods.py:Half' is not a stage: it should be a class that inherits",
        ),
        (["explore=[methods.py:NoStage]"], "explore.0: 'methods.py:NoStage' is not a stage: it should be a class"),
        (
            ["credit.main=[methods.py:Retry]"],
            "credit.main.0: 'methods.py:Retry' is not a credit component: it should be",
        ),
        (["explore=[uniform,methods.py:Old]"], "explore.1: 'methods.py:Old' has 'reads_entropies', which Outrider no"),
        (["explore=[uniform,{methods.py:Retry: {m: 1}}]"], "explore.1.methods.py:Retry.m is not a key (known: n)"),
        (
            ["explore=[uniform,{methods.py:Retry: {n: x}}]"],
            'explore.1.methods.py:Retry.n is "x", but should be a whole',
        ),
        (
            ["explore=[uniform,{methods.py:Retry: {n: 0}}]"],
            "explore.1.methods.py:Retry.n is 0, but should be at least 1",
        ),
        (["engine.sampler=methods.py:Retry"], "engine.sampler: 'methods.py:Retry' is not a sampler"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(overrides: list[str], expected: str) -> None:
    assert expected in sentence(*overrides)


def test_a_file_that_cannot_be_imported_says_why(here: Path) -> None:
    (here / "broken.py").write_text("1 / 0")
    assert "broken.py cannot be imported: ZeroDivisionError" in sentence("explore=[broken.py:Retry]")
    (here / "broken.py").write_text("class Retry: pass")
    assert "is not a stage" in sentence("explore=[broken.py:Retry]")


def test_installed_packages_add_names(installed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    installed("somebody", retry="somebody:Retry", median="somebody:Median")
    recipe = load_recipe("grpo", ["explore=[uniform,{retry: {n: 2}}]", "credit.main=[median]"])
    assert recipe.resolved()["explore"][1] == {"retry": {"n": 2}}
    assert recipe.components["retry"].model_dump() == {
        "where": "somebody:Retry",
        "distribution": "somebody 1.2",
        "source": recipe.components["retry"].source,
    }
    told = {info.name: info for info in list_components()}
    assert told["retry"][:4] == ("stage", "retry", "somebody 1.2", ("n",))
    assert told["median"].kind == "baseline"
    assert main(["components", "stage"]) == 0
    assert "retry  (somebody 1.2, somebody:Retry)" in capsys.readouterr().out
    assert "did you mean 'retry'?" in sentence("explore=[uniform,rety]")


def with_environment(here: Path, name: str) -> list[str]:
    (here / "numbers.jsonl").write_text('{"problem": "7>", "answer": "7"}\n')
    (here / "held.jsonl").write_text('{"problem": "8>", "answer": "8"}\n')
    table = "{train_data: numbers.jsonl, heldout_data: held.jsonl, prompt: '{problem}'}"
    return [f"task={{environment: {{environment: {name}, problems: {table}}}}}"]


def test_an_installed_package_adds_the_name_of_an_environment(
    installed: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed("somebody", guess="somebody:Guess", retry="somebody:Retry")
    task = load_recipe("grpo", with_environment(here, "guess")).task
    assert (task.environment, task.name) == ("guess", "guess on table")
    environment = pickle.loads(pickle.dumps(task.makes()))()
    assert environment.begin(task.train(0), 0) == ""
    assert environment.step("3;").observation == "+;"
    assert main(["components", "environment"]) == 0
    told = capsys.readouterr().out
    assert "guess  (somebody 1.2, somebody:Guess)\n    Says whether the number is larger" in told

    before = task.fingerprint
    file = here / "somebody.py"
    file.write_text(file.read_text().replace("four times", "4 times"))
    assert load_recipe("grpo", with_environment(here, "guess")).task.fingerprint != before


def test_a_name_that_is_no_environment_is_a_sentence(installed: Any, here: Path) -> None:
    installed("somebody", guess="somebody:Guess", retry="somebody:Retry")
    assert "'gues' is no import path, such as my_env.py:Guess, and no component of an installed package (did you" in (
        sentence(*with_environment(here, "gues"))
    )
    with pytest.raises(UserError, match=r"^somebody:Retry is no environment: "):
        _ = load_recipe("grpo", with_environment(here, "retry")).task.fingerprint
    assert "'somebody:Guess' is not a stage" in sentence("explore=[uniform,guess]")


def test_two_packages_with_one_name_are_refused(installed: Any) -> None:
    installed("somebody", retry="somebody:Retry")
    installed("another", retry="another:Retry")
    with pytest.raises(UserError, match=r"1\.2 and .* 1\.2 both have a component 'retry'"):
        load_recipe("grpo", ["explore=[uniform,retry]"])


def test_a_clash_is_of_its_name_alone(installed: Any) -> None:
    installed("somebody", retry="somebody:Retry")
    installed("another", retry="another:Retry")
    assert load_recipe("grpo").explore == [Uniform(n=8)]
    assert load_recipe("grpo", ["explore=[uniform,another:Retry]"]).explore[1].n == 4


def test_a_run_that_is_extended_records_its_components_anew(here: Path) -> None:
    old = load_recipe("grpo", ["explore=[uniform,methods.py:Retry]"]).resolved()
    old["components"]["methods.py:Retry"]["source"] = "another"
    (here / "config.yaml").write_text(dump_yaml(old))
    (here / "mine.yaml").write_text("extends: ./config.yaml\n")
    assert load_recipe("mine.yaml").components["methods.py:Retry"].source not in ("another", "")
    assert "components is recorded by the run" in sentence("components={}")


def test_options_inside_a_component_are_no_component(here: Path) -> None:
    (here / "nested.py").write_text(
        "from outrider.options import Options\nfrom outrider import Stage\n"
        "class Sub(Options):\n    n: int = 1\nclass Nested(Stage):\n    sub: Sub = Sub()\n"
    )
    assert [*load_recipe("grpo", ["explore=[uniform,nested.py:Nested]"]).components] == ["nested.py:Nested"]


def test_a_package_may_not_take_the_name_of_a_shipped_component_of_the_same_kind(installed: Any) -> None:
    installed("somebody", uniform="somebody:Retry", group_mean="somebody:Retry")
    assert "'uniform' is shipped with Outrider, and somebody 1.2 has a stage of that name" in sentence()
    with pytest.raises(UserError, match=r"somebody 1\.2 has a stage 'uniform', which is shipped"):
        list_components()


def test_a_name_of_another_kind_takes_nothing(installed: Any) -> None:
    installed("somebody", group_mean="somebody:Retry")
    assert load_recipe("grpo").resolved()["credit"]["main"][0].keys() == {"group_mean"}
    assert type(load_recipe("grpo", ["explore=[uniform,group_mean]"]).explore[1]).__name__ == "Retry"


def test_a_package_whose_component_is_of_no_kind_is_named(installed: Any) -> None:
    installed("somebody", odd="somebody:NoStage")
    with pytest.raises(UserError, match="'somebody:NoStage' is not a component"):
        list_components()


def test_every_kind_is_listed_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    found = list_components()
    assert {"stage", "baseline", "shaper", "reward shaper", "surrogate", "task", "verifier"} <= {
        info.kind for info in found
    }
    assert [info.name for info in found if not info.summary] == []
    assert main(["components", "stages"]) == 2
    assert "did you mean 'stage'?" in capsys.readouterr().err
