"""The tables of docs/architecture.md: every contract with its members, and who has which.

Usage: ``python tools/contracts_page.py``. Members are read from the classes: methods, properties and declared
attributes of the contract's own body. What writes a state and what reads it again count as one member.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from outrider.credit import BASELINES, REWARD_SHAPERS, SHAPERS
from outrider.credit.chain import Baseline, RewardShaper, Shaper, StageBaseline
from outrider.environments.environment import Environment
from outrider.explore import STAGES
from outrider.explore.bounds import BoundedStage
from outrider.explore.segment import SEGMENTERS, Segmenter
from outrider.explore.select import SELECTORS
from outrider.explore.select.base import FillingSelector, Selector
from outrider.explore.stage import AdmittingStage, PlansAhead, PredictingStage, PreparedStage, Stage
from outrider.learn.learner import EntropyLearner, Learner, Loss
from outrider.learn.local import LocalLearner
from outrider.learn.tinker import TinkerLearner
from outrider.objective.policy_loss import ImitationLoss, PolicyLoss
from outrider.sample.local import LocalSampler
from outrider.sample.sampler import AdapterSampler, Arriving, Keeping, Sampler
from outrider.sample.tinker import TinkerSampler
from outrider.sample.turns import TurnSampler
from outrider.sample.vllm import VllmSampler
from outrider.sample.vllm_inside import VllmInside
from outrider.tasks import TASKS
from outrider.tasks.task import BatchTask, CharacterTask, CountedTask, MessageTask, SolvedTask, SubwordTask, Task

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
MOST = 6
"""Members of a contract."""
PAIRS = {"state_dict": "state", "load_state_dict": "state", "save": "state", "load": "state", "__call__": "call"}
IMPLIED = ("_", "model_")
"""Prefixes of names that are no part of a contract: private ones, and what pydantic keeps in a class."""


class Contract(NamedTuple):
    """A contract, those that are optional beside it, and the classes that keep it, by the name that a table shows."""

    of: type
    optional: Sequence[type] = ()
    kept_by: Sequence[type] = ()


CONTRACTS = (
    Contract(Stage, (BoundedStage, AdmittingStage, PreparedStage, PredictingStage, PlansAhead), (*STAGES.values(),)),
    Contract(Selector, (FillingSelector,), (*SELECTORS.values(),)),
    Contract(Segmenter, (), (*SEGMENTERS.values(),)),
    Contract(RewardShaper, (), (*REWARD_SHAPERS.values(),)),
    Contract(Baseline, (StageBaseline,), (*BASELINES.values(),)),
    Contract(Shaper, (), (*SHAPERS.values(),)),
    Contract(Loss, (), (PolicyLoss, ImitationLoss)),
    Contract(Learner, (EntropyLearner,), (LocalLearner, TinkerLearner)),
    Contract(
        Sampler,
        (AdapterSampler, Arriving, Keeping),
        (LocalSampler, VllmSampler, VllmInside, TinkerSampler, TurnSampler),
    ),
    Contract(
        Task,
        (BatchTask, SolvedTask, CountedTask, MessageTask, CharacterTask, SubwordTask),
        (*TASKS.values(),),
    ),
    Contract(Environment),
)


def members(contract: type) -> list[str]:
    """What a contract declares, in its order.

    >>> members(Environment)
    ['begin', 'step', 'close']
    """
    declared = [*vars(contract), *vars(contract).get("__annotations__", {})]
    public = [name for name in declared if not name.startswith(IMPLIED) or name in PAIRS]
    fields = set(getattr(contract, "model_fields", {}))  # options of a recipe, not of the contract
    return list(dict.fromkeys(PAIRS.get(name, name) for name in public if name not in fields))


def has(kept_by: type, contract: type, member: str) -> bool:
    """Whether a class has a member of its own, or an optional contract's."""
    written = [name for name, short in PAIRS.items() if short == member] or [member]
    below = inspect.getmro(kept_by)
    below = below[: below.index(contract)] if contract in below else below[:-1]
    for each, name in itertools.product(below, written):
        if name in vars(each) or name in vars(each).get("__annotations__", {}):
            return True
        if each.__module__.startswith("outrider") and re.search(rf"self\.{name}\b[^=\n]* = ", inspect.getsource(each)):
            return True  # an attribute of instances
    return False


def table(contract: Contract) -> str:
    """Markdown: the classes that keep a contract in rows, its members and the optional ones in columns."""
    own = members(contract.of)
    more = [(each, name) for each in contract.optional for name in members(each) or [each.__name__]]
    heads = [contract.of.__name__, *(f"`{name}`" for name in own), *(f"*`{name}`*" for _, name in more)]
    rows = [heads, ["---", *[":---:"] * (len(heads) - 1)]]
    for kept_by in contract.kept_by:
        marks = [has(kept_by, contract.of, name) for name in own]
        marks += [has(kept_by, each, name) or inherits(kept_by, each) for each, name in more]
        rows.append([f"`{kept_by.__name__}`", *("•" if mark else "" for mark in marks)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def inherits(kept_by: type, contract: type) -> bool:
    """Whether a class is one of an optional contract that is no protocol."""
    return not getattr(contract, "_is_protocol", False) and issubclass(kept_by, contract)


def sizes() -> str:
    """Markdown: every contract with the number of its members."""
    rows = ["| contract | members | optional contracts |", "| --- | --- | --- |"]
    for each in CONTRACTS:
        own = members(each.of)
        file = each.of.__module__.replace(".", "/")
        more = ", ".join(f"`{one.__name__}`" for one in each.optional)
        named = ", ".join(f"`{name}`" for name in own)
        rows.append(f"| [`{each.of.__name__}`](../src/{file}.py) | {len(own)}: {named} | {more} |")
    return "\n".join(rows)


def parts() -> Iterator[tuple[str, str]]:
    """The tables of the page, by the names of their places."""
    yield "sizes", sizes()
    for each in CONTRACTS:
        if each.kept_by:
            yield each.of.__name__.lower(), table(each)


def filled(page: str) -> str:
    """The page with its tables written anew between their marks."""
    for name, text in parts():
        marks = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        page, found = re.subn(marks, lambda match, text=text: match[1] + text + match[2], page, flags=re.DOTALL)
        if found != 1:
            raise SystemExit(f"{PAGE} has {found} places for the table {name}")
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
