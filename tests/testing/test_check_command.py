"""``outrider check``: lines, exit statuses, and the sentence for each mistake of a user."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.cli import main
from outrider.importing import load_object

METHODS = Path(__file__).parent.parent / "outside" / "methods.py"
WRONG = """
from pydantic import Field, PrivateAttr
from outrider.explore import Stage
from outrider.credit import Shaper
from outrider.record import SampleRequest


class Forgetful(Stage):
    _seen: int = PrivateAttr(0)

    def plan(self, view):
        groups = [] if view.round else [g for g in view.groups if not g.dropped]
        return [SampleRequest(g.problem, n=1 + self._seen % 5) for g in groups]

    def observe(self, groups):
        self._seen += len(groups)
        return {}


class InPlace(Shaper):
    def shape(self, advantages_GT, members, step):
        for a_T in advantages_GT:
            a_T *= 0.5
        return list(advantages_GT)


class Needs(Shaper):
    share: float = Field(description="factor")


class Late(Stage):
    after: int = Field(10_000, description="step")

    def plan(self, view):
        early = view.round or view.step < self.after
        return [] if early else [SampleRequest(g.problem, n=2) for g in view.groups if not g.dropped]


class Dropper(Stage):
    above: int = Field(10_000, description="successes")

    def plan(self, view):
        return []

    def drop(self, groups):
        return {g.id: "dropper: many" for g in groups if g.size and not g.dropped and g.successes > self.above}


class Mapped(Shaper):
    weights: dict[str, float] = Field({"a": 2.0}, description="factors")
    mode: str = Field("a", description="which")
    on: bool = Field(True, description="at all")

    def shape(self, advantages_GT, members, step):
        return [a_T * (self.weights[self.mode] if self.on else 1.0) for a_T in advantages_GT]


class Long(Shaper):
    above: int = Field(100, description="tokens")

    def shape(self, advantages_GT, members, step):
        return [a_T * (0.5 if len(a_T) > self.above else 1.0) for a_T in advantages_GT]


class Refuses(Shaper):
    share: float = Field(2.0, le=1, description="factor", validate_default=True)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "methods.py").write_text(METHODS.read_text())
    (tmp_path / "wrong.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "law", "call"),
    [
        ("methods.py:Retry", "Retry, a stage, with n=4", "resume", "check_stage(Retry)"),
        ("outrider.explore:Uniform", "Uniform, a stage, with n=8", "budget", "check_stage(Uniform, first=True)"),
        (
            "methods.py:Median",
            "Median, a baseline, with no options",
            "pure",
            "check_baseline(Median, shift=True, scale=1, ",
        ),
        (
            "methods.py:Half",
            "Half, a shaper, with share=0.5",
            "groups apart",
            "check_shaper(Half, shift=True, scale=1, ",
        ),
        ("outrider.explore:Keep", "Keep, a stage", "reasons", "check_stage(Keep, single=True)"),
        ("methods.py:Plain", "Plain, a policy loss, with no options", "finite differences", "check_loss(Plain)"),
        (
            "outrider.objective:Cispo",
            "Cispo, a policy loss, with ",
            "on policy",
            "check_loss(Cispo, stops_gradient=True)",
        ),
    ],
)
def test_a_good_component_has_a_line_for_each_law(
    name: str, kind: str, law: str, call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", name]) == 0
    first, *laws, last = capsys.readouterr().out.splitlines()
    assert first.startswith(kind)
    assert f"ok  {law}" in laws
    assert all(line.startswith("ok  ") for line in laws)
    assert last.startswith(f"for a test: outrider.testing.{call}")


@pytest.mark.parametrize(
    ("name", "warning", "option"),
    [
        ("wrong.py:Late", "it requested no rollout and dropped none in 12 situations", "after=1"),
        ("wrong.py:Dropper", "it requested no rollout and dropped none in 12 situations", "above=1"),
        ("wrong.py:Long", "it changed no advantage of 18 groups (step 250, up to 6 tokens a response)", "above=2"),
    ],
)
def test_a_component_that_did_nothing_is_warned_of_until_an_option_lets_it(
    name: str, warning: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", name]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    key = option.partition("=")[0]
    assert last.startswith(f"warning: {warning}")
    assert last.endswith(f"as in {key}=…")
    assert main(["check", name, option]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("for a test: ")
    assert f"(lambda: {name.partition(':')[2]}({option})" in last


def test_the_call_for_a_test_is_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "wrong.py:Mapped", "mode=b", "on=true", "weights={b: 3.0}"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    call = last.partition("lambda: ")[2].partition("), ")[0] + ")"
    Mapped = load_object("wrong.py:Mapped")
    assert eval(call, {"Mapped": Mapped}) == Mapped(mode="b", on=True, weights={"b": 3.0})  # noqa: S307 - what is printed
    assert main(["check", "wrong.py:Needs", "share.x=1"]) == 2
    assert "no default" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "law", "sentence"),
    [
        ("wrong.py:Forgetful", "budget", "Forgetful breaks 'resume' in 'even groups': killed and resumed after step 3"),
        ("wrong.py:InPlace", "runs", "InPlace breaks 'input unchanged' in 'a group with rewards"),
    ],
)
def test_a_broken_law_is_one_sentence_and_status_1(
    name: str, law: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", name]) == 1
    *before, last = capsys.readouterr().out.splitlines()
    assert f"ok  {law}" in before
    assert last.startswith(sentence)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("retry", "'retry' is no import path, such as my_methods.py:Retry"),
        ("nowhere.py:Retry", "component 'nowhere.py:Retry': no such file"),
        ("methods.py:NoStage", "'methods.py:NoStage' is not a component: it should be a class that inherits from"),
        ("methods.py:Contains", "'methods.py:Contains' is a verifier, whose laws need rows"),
        (
            "methods.py:Guess",
            "'methods.py:Guess' is an environment, whose laws need problems with turns of a policy: use ",
        ),
        (
            "wrong.py:Needs",
            "'wrong.py:Needs' has no default for 'share': add share=…, or call outrider",
        ),
        ("wrong.py:Refuses", "wrong.py:Refuses: share is 2.0, but should be at most 1"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(name: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", name]) == 2
    assert capsys.readouterr().err.startswith(f"outrider: {sentence}")
