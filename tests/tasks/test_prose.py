"""The setting ``prose``: its base is what its card says, and what recipes ask for fits it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from outrider.config import load_recipe
from outrider.model.load import Policy, load_policy
from outrider.model.places import local_config, model_folder
from outrider.record import Ids, Problem, Rollout, SampleRequest
from outrider.sample.local import LocalSampler
from outrider.sample.ready import ready
from outrider.tasks.word_problems import WordProblems
from outrider.testing.scripted import ScriptedEngine

CARD = Path(model_folder("base:prose")) / "README.md"
GRPO = load_recipe("grpo", ["task.word_problems.steps=[2,3,4,5,6,7,8]"], setting="prose")  # as in the card
TASK = GRPO.task


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("base:prose")


def measured() -> dict[str, list[float]]:
    """The card's table: pass@1, pass@8, pass@64 and greedy by level."""
    rows = re.findall(r"^\| (\d|all) \| (.*) \|$", CARD.read_text(), re.MULTILINE)
    return {level: [float(cell.split("±")[0]) for cell in cells.split("|")] for level, cells in rows}


def solution(policy: Policy, problem: Problem) -> list[int]:
    """A worked one, with the token that ends it."""
    ids: list[int] = policy.tokenizer(problem.metadata["solution"], add_special_tokens=False)["input_ids"]
    return [*ids, policy.tokenizer.eos_token_id]


def test_the_base_is_small(policy: Policy) -> None:
    """Half of what a shipped one may have: 3 million parameters in half precision."""
    assert sum(file.stat().st_size for file in CARD.parent.iterdir()) < 3_500_000
    assert f"{policy.model.num_parameters():,} parameters" in CARD.read_text()


def test_the_base_is_what_its_card_says(policy: Policy) -> None:
    """By the likelihood of solutions of held-out problems, which nothing draws."""
    told = re.search(r"of the first (\d+) held-out problems has (\d\.\d+) nats", CARD.read_text())
    assert told is not None
    total, tokens = 0.0, 0
    # the card was measured on the order of 0.2
    for problem in TASK.model_copy(update={"heldout_order": "drawn"}).heldout(int(told[1])):
        prompt, own = list(policy.encode(problem)), solution(policy, problem)
        with torch.no_grad():
            logits = policy.model(torch.tensor([[*prompt, *own]])).logits[0, len(prompt) - 1 : -1]
        total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(own), reduction="sum"))
        tokens += len(own)
    assert total / tokens == pytest.approx(float(told[2]), abs=0.002)


def test_sampled_it_solves_as_much_as_the_card_says() -> None:
    """16 samples of each of 8 problems of two and three steps: their mean is known to a tenth."""
    policy = ready(load_policy("base:prose"), "packed")[0]
    problems = [problem for problem in TASK.heldout(28) if problem.level in "23"]
    requests = [SampleRequest(p, n=16, prompt_ids=policy.encode(p), group_id=p.id) for p in problems]
    by_id = {problem.id: problem for problem in problems}
    solved = [
        TASK.verify(by_id[each.problem_id], each.text, not each.truncated).success
        for each in LocalSampler(policy, GRPO.sample).sample(requests)
    ]
    table = measured()
    assert np.mean(solved) == pytest.approx((table["2"][0] + table["3"][0]) / 2, abs=0.2)
    assert np.mean(solved) > 0.1  # by chance it would be 0.02


def test_its_pass_rates_are_spread_as_those_of_hard_problems_are() -> None:
    """What it is for: what takes more steps is solved less, and of what one sample misses many samples find much."""
    table = measured()
    assert table["2"][0] > 1.5 * table["4"][0] > 1.5 * 1.5 * table["8"][0]
    assert table["all"][0] < 0.5 < table["all"][2]


def test_the_setting_has_the_short_ones() -> None:
    """Of longer ones too little is learnt (docs/log.md, 2026-11-25)."""
    task = load_recipe("grpo", setting="prose").task
    assert isinstance(task, WordProblems)
    assert {problem.level for problem in task.heldout(30)} == {"2", "3", "4"}


class _Parts(ScriptedEngine):
    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def token_texts(self, ids: Ids) -> list[str]:
        return [self.policy.tokenizer.decode([token]) for token in ids]


def _response(policy: Policy, problem: Problem) -> Rollout:
    own = np.array(solution(policy, problem), np.int32)
    return Rollout(
        problem_id=problem.id,
        group_id="g",
        member=0,
        prompt_ids=policy.encode(problem),
        token_ids=own,
        logprobs_T=np.zeros(len(own), np.float32),
        prefix_ids=own[:0],
    )


@pytest.mark.parametrize("name", ["tree-grpo", "deep-grpo", "arpo", "attnrl", "dars-pivots", "xrpo-deep"])
def test_those_that_cut_at_steps_cut_behind_sentences_and_never_behind_the_answer(name: str, policy: Policy) -> None:
    recipe = load_recipe(name, setting="prose")
    assert isinstance(recipe.task, WordProblems)
    assert recipe.objective.kl == load_recipe(name).objective.kl, "what is said of countdown holds here"
    endings = set()
    for problem in TASK.heldout(40):
        response = _response(policy, problem)
        text = problem.metadata["solution"]
        cuts = recipe.explore[-1].segment.chain(response, {}, _Parts(policy)).candidates
        assert len(cuts) == text.count(".") - 1
        for cut in cuts:
            before = policy.tokenizer.decode(response.token_ids[:cut])
            assert before.endswith(".")
            assert "nswer" not in before
        endings.add(text.rpartition(". ")[2].rpartition(" ")[0])
    assert endings == {"The answer is", "So the answer is", "Answer:"}


@pytest.fixture(scope="module")
def longest(policy: Policy) -> tuple[int, int]:
    """Tokens of a prompt and of a solution."""
    problems = [*TASK.heldout(200), *(TASK.train(i) for i in range(200))]
    return max(len(policy.encode(each)) for each in problems), max(len(solution(policy, each)) for each in problems)


def _rooms(name: str, prompt: int, response: int) -> Sequence[int]:
    recipe = load_recipe(name, setting="prose")
    return [
        prompt,
        *(stage.seed.max_tokens for stage in recipe.explore if getattr(stage, "seed", None)),
        *(prompt + response // 2 for _ in recipe.explore if name == "questa"),  # half of a solution as a hint
    ]


@pytest.mark.parametrize("name", ["grpo", "xrpo", "questa"])
def test_what_the_setting_asks_for_fits_the_base(name: str, longest: tuple[int, int]) -> None:
    context = (local_config(GRPO.model) or {})["max_position_embeddings"]
    prompt, response = longest
    assert response <= GRPO.sample.max_tokens
    assert max(_rooms(name, prompt, response)) + GRPO.sample.max_tokens <= context


@pytest.mark.parametrize("setting", ["countdown", "frontier", "hops", "prose", "sparse"])
def test_the_greedy_response_of_remax_may_be_as_long_as_the_others(setting: str) -> None:
    recipe = load_recipe("remax", setting=setting)
    assert recipe.explore[1].max_tokens == recipe.sample.max_tokens
