"""Settings of the whole suite."""

import os
from multiprocessing import forkserver
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the hub's library is imported: no test waits for a network

import pytest
import torch
from hypothesis import settings

import unpainted  # noqa: F401 - runs make their pictures and do not paint them
from outrider.bench.child import PRELOAD
from outrider.processes.cores import usable_cores

# A slow moment of the machine is no failure, and equal code has equal results; `--hypothesis-profile=search` looks for
# new examples.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("suite")
torch.set_num_threads(1)

# Processes are forked from one that has what any of them imports, whichever test forks first: 3 CPU seconds for each.
FORKED = [*PRELOAD, "outrider.learn.sharded", "outrider.sample.vllm"]
FORKED += [f"transformers.models.{family}.modeling_{family}" for family in ("qwen2", "qwen3", "llama")]
preload = forkserver.set_forkserver_preload
forkserver.set_forkserver_preload = lambda modules: preload([*modules, *FORKED])

# Files of many seconds, longest first: a process that draws one of them last would keep the others waiting.
LONG = [
    *("test_signals.py", "test_run.py", "test_stages.py", "test_agent_recipes.py", "test_kept_turns.py"),
    *("test_learner_contract.py", "test_tinker_contract.py", "test_bench_run.py", "test_trl_task.py"),
    *("test_tinker_runs.py", "test_models_page.py", "test_memory.py", "test_turns.py", "test_credit_turns.py"),
    *("test_sharded_runs.py", "test_gpu_benchmark.py", "test_verify_escapes.py", "test_turn_runs.py"),
    *("test_lost_ranks.py", "test_findings.py", "test_verify_pool.py", "test_python_tool.py"),
]


@pytest.hookimpl(optionalhook=True)  # environments of other engines have no xdist
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores, at most four: a fifth of the time is spent waiting for servers and for other
    processes."""
    return min(4, len(usable_cores()) + 1)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """xdist keeps the order below; by itself it begins with the files of the most tests."""
    config.option.loadscopereorder = False


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Doctests are looked for in src: what tests import needs none, and the zoo of verifiers its own interpreter."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None


class Shared(pytest.Dir):
    """A folder that each process of the suite begins to read in another place.

    It compiles the assertions of a clean clone's tests, which takes seconds; the others find them compiled.
    """

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        found = list(super().collect())
        share = self.config.workerinput
        first = len(found) * int(share["workerid"].removeprefix("gw")) // share["workercount"]
        return found[first:] + found[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """One process alone reads in order."""
    ours = Path(__file__).parent in (path, path.parent) and hasattr(parent.config, "workerinput")
    return Shared.from_parent(parent, path=path) if ours else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long files come first, the others by their names; within a file, the order stays."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: (places.get(item.path.name, len(LONG)), item.path))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random Qwen3 of characters, on disk, as services are given it."""
    from outrider.model.tiny import character_tokenizer
    from small import random_model

    folder = tmp_path_factory.mktemp("model")
    random_model("qwen3").save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return str(folder)
