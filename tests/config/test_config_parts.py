"""The parts of configuration by themselves: components, chains, YAML, and what importing them takes along."""

import json
import math
import subprocess
import sys
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from outrider.config import ComponentOf, Evaluate, dump_yaml, load_options, load_sft, read_yaml
from outrider.config.recipe import _in_order
from outrider.credit import BASELINES, REWARD_SHAPERS, SHAPERS, GroupMean, Shaper
from outrider.errors import UserError
from outrider.explore import STAGES
from outrider.learn.options import SftOptions
from outrider.objective.options import ObjectiveOptions
from outrider.options import Options
from outrider.tasks import TASKS, Table


class Small(Options):
    size: int = Field(1, ge=1)


class Nested(Options):
    inner: Annotated[Small, ComponentOf({"small": Small}, "inner component")] = Small()


OUTER = TypeAdapter(list[Annotated[Options, ComponentOf({"small": Small, "nested": Nested}, "thing")]])


def test_a_component_is_a_name_or_one_name_with_options():
    parsed = OUTER.validate_python(
        [
            "small",
            {"small": {"size": 2}},
            {"nested": None},
            Small(size=3),
            {"nested": {"inner": {"small": {"size": 4}}}},
        ]
    )
    assert parsed == [Small(), Small(size=2), Nested(), Small(size=3), Nested(inner=Small(size=4))]
    data = OUTER.dump_python(parsed, mode="json")
    assert data[0] == {"small": {"size": 1}}
    assert data[4] == {"nested": {"inner": {"small": {"size": 4}}}}
    assert OUTER.validate_python(data) == parsed


def test_the_place_of_a_mistake_inside_components_carries_their_names():
    with pytest.raises(ValueError, match=r"0\.nested\.inner\.small\.size"):
        OUTER.validate_python([{"nested": {"inner": {"small": {"size": 0}}}}])


TABLES = [STAGES, REWARD_SHAPERS, BASELINES, SHAPERS, TASKS]


def test_a_chain_has_its_links_in_order():
    class Twice(Shaper):
        pass

    assert _in_order([GroupMean(), Twice()]) == [GroupMean(), Twice()]
    with pytest.raises(
        ValueError, match=r"^Twice comes too early in its credit chain: .* \(baselines: .*group_mean.*\)$"
    ):
        _in_order([Twice(), GroupMean()])


@pytest.mark.parametrize(
    "options", [component for table in TABLES for component in table.values()] + [ObjectiveOptions]
)
def test_no_component_has_more_than_eight_options(options):
    places = (
        {"question", "answer", "solution", "id", "level"} if options is Table else set()
    )  # where data are, not what to do
    assert len(options.model_fields.keys() - places) <= 8


def test_commands_take_the_same_overrides():
    evaluation = load_options(
        Evaluate, {"model": "m", "task": "countdown"}, ["task.cap=20", "evaluate.n=4"], "evaluate"
    )
    assert (evaluation.task.cap, evaluation.evaluate.n) == (20, 4)
    with pytest.raises(UserError, match=r"^evaluate: task: 'x' is not a task"):
        load_options(Evaluate, {"model": "m", "task": "x"}, [], "evaluate")
    data = {"model": "m", "task": {"countdown": {"sizes": [3, 4]}}}
    assert load_options(Evaluate, data, ["task.sizes.0=5"], "evaluate").task.sizes == (5, 4)
    assert data == {"model": "m", "task": {"countdown": {"sizes": [3, 4]}}}
    sft = load_sft("countdown", ["learn.lr=0.5"])
    assert sft.learn == SftOptions().learn.model_copy(update={"lr": 0.5})
    with pytest.raises(UserError, match=r"^learn\.rates=3: learn\.rates is not a key"):
        load_sft("countdown", ["learn.rates=3"])


# YAML.

KEYS = st.text(min_size=1)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DATA = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=12)


@given(DATA)
def test_what_is_dumped_reads_back_unchanged(data):
    assert read_yaml(dump_yaml(data), "x") == data
    assert json.dumps(read_yaml(dump_yaml(data), "x")) == json.dumps(data)  # True is not 1, nor 1 1.0


def test_a_value_that_occurs_twice_is_written_twice():
    shared = {"n": [1, 2]}
    assert dump_yaml({"a": shared, "b": shared}) == "a:\n  n: [1, 2]\nb:\n  n: [1, 2]\n"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_as_python_writes_them(number):
    assert read_yaml(repr(number), "x") == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("010", 10),
        ("1_000", 1000),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("~", None),
        ("", None),
        ("2024-01-01", "2024-01-01"),
        ("0x1f", "0x1f"),
        ("-.inf", -math.inf),
        (".5", 0.5),
        ("True", True),
        ("-", [None]),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    result = read_yaml(text, "x")
    assert (type(result), result) == (type(value), value)


# Imports.


def test_recipes_and_the_command_line_need_no_torch():
    code = """if True:
        import sys
        sys.modules["torch"] = sys.modules["transformers"] = None  # as where they are not installed
        import outrider.config, outrider.record, outrider.explore, outrider.credit, outrider.measure
        from outrider.cli import main
        assert main(["train", "grpo", "--dry-run"]) == 0
        assert main(["sft", "countdown", "--dry-run"]) == 0
        assert main(["evaluate", "m", "--task", "countdown", "--dry-run"]) == 0
        assert not {"rich", "reasoning_gym", "datasets"} & set(sys.modules)
    """  # how long the imports take is checked with the layers (tools/check_layers.py)
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.count("not checked: prompts, since torch is not installed") == 2
