"""docs/architecture.md: its tables are those of the classes, and every contract is small."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tool() -> Iterator[ModuleType]:
    sys.path.insert(0, str(TOOLS))
    yield importlib.import_module("contracts_page")
    sys.path.remove(str(TOOLS))


def test_the_page_has_the_tables_of_the_classes(tool: ModuleType) -> None:
    page = tool.PAGE.read_text("utf-8")
    assert tool.filled(page) == page, "python tools/contracts_page.py writes them anew"


def test_no_contract_has_more_than_six_members(tool: ModuleType) -> None:
    sizes = {contract.of.__name__: len(tool.members(contract.of)) for contract in tool.CONTRACTS}
    assert max(sizes.values()) <= tool.MOST, sizes
    assert min(sizes.values()) >= 2, "and a contract whose members are not found is none"


def test_a_member_is_found_where_it_is_defined(tool: ModuleType) -> None:
    """By hand: a property, a method of a parent below the contract, an attribute of instances, and one that is not."""
    from outrider.explore import STAGES
    from outrider.explore.stage import Stage
    from outrider.sample.local import LocalSampler
    from outrider.sample.sampler import Sampler

    assert tool.has(STAGES["branch"], Stage, "requires")
    assert tool.has(STAGES["vip"], Stage, "check"), "of Allocation"
    assert tool.has(LocalSampler, Sampler, "notices")
    assert not tool.has(STAGES["uniform"], Stage, "drop")
