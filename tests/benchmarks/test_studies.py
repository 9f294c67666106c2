"""The exact calculations of ``benchmarks/studies``: against enumeration, and against numbers that the papers print."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

STUDIES = Path(__file__).parents[2] / "benchmarks" / "studies"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch):
    """Imports a study as ``python benchmarks/studies/NAME.py`` would find it."""
    monkeypatch.syspath_prepend(str(STUDIES))
    before = set(sys.modules)

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(STUDIES)):
            del sys.modules[name]


def test_the_tree_has_the_probabilities_that_the_paper_states(study):
    tree = study("decision_tree")
    for node, children in tree.TREE.items():
        assert sum(children.values()) == pytest.approx(1), node
    root = tree.ends("A")
    assert [root[x] for x in "FGMO"] == pytest.approx([0.24, 0.2, 0.4 * 0.4 * 0.2, 0.032])
    assert tree.ends("C")["O"] == pytest.approx(0.08)
    assert sorted(root, key=root.get, reverse=True)[:5] == ["F", "G", "J", "L", "N"]  # "high-probability paths"
    assert set("".join(tree.TREE) + "".join(root)) == set("ABCDEFGHIJKLMNO")


@pytest.mark.parametrize("method", ["GRPO", "tree", "DEEP-GRPO"])
def test_what_an_algorithm_finds_in_a_tree_is_the_sum_over_all_that_can_happen(study, method):
    tree, branches = study("decision_tree"), 2
    once = []  # every outcome of one root rollout with its branches: probability, leaves, edges
    for path, p in tree.leaves("A").items():
        for q, nodes in tree.pivots(method, path):
            for drawn in itertools.product(*(tree.leaves(node).items() for node in nodes for _ in range(branches))):
                chance = p * q * float(np.prod([r for _, r in drawn]))
                seen = {path[-1], *(end[-1] for end, _ in drawn)}
                once.append((chance, seen, len(path) + sum(len(end) for end, _ in drawn)))
    assert sum(chance for chance, _, _ in once) == pytest.approx(1)
    result = tree.algorithm(method, 2, branches)
    assert result["edges"] == pytest.approx(2 * sum(chance * edges for chance, _, edges in once))
    for leaf, found in result["found"].items():
        missed = sum(chance for chance, seen, _ in once if leaf not in seen)
        assert found == pytest.approx(1 - missed**2)


def test_twelve_rollouts_as_in_the_figure(study):
    shown = study("decision_tree").figure_budgets()
    assert {sum(row["rollouts"].values()) for row in shown.values()} == {12}
    assert shown["GRPO"]["found"]["O"] == pytest.approx(1 - (1 - 0.032) ** 12)
    assert shown["DEEP-GRPO"]["found"]["O"] == pytest.approx(1 - (1 - 0.032) ** 4 * 0.8**4)
    at_k = 1 - 0.8**4 - 0.2**4  # four of K's two leaves, not all alike
    from_a = 1 - (1 - 0.128) ** 4 - (1 - 0.032) ** 4 + (1 - 0.16) ** 4
    assert shown["DEEP-GRPO"]["N_and_O_from_one_place"] == pytest.approx(1 - (1 - at_k) * (1 - from_a))


def test_expected_sums_have_the_closed_forms_of_a_binomial(study):
    curves = study("cumulative_advantage")
    for p in (0.0, 0.05, 0.3, 0.5, 1.0):  # E[a (1 - a)] = (1 - 1/N) p (1 - p)
        assert curves.expected(curves.Method("no std"), p) == pytest.approx(2 * 7 * p * (1 - p))
        assert curves.expected(curves.Method("leave one out"), p) == pytest.approx(2 * 8 * p * (1 - p))


@pytest.mark.parametrize("schedule", ["et", "hw"])
def test_an_expected_sum_is_that_over_all_sequences_of_outcomes(study, monkeypatch, schedule):
    curves = study("cumulative_advantage")
    monkeypatch.setattr(curves, "N", 3)
    method, p, total = curves.Method("no std", schedule, n_max=7), 0.2, 0.0
    for outcomes in itertools.product([0, 1], repeat=7):
        taken = np.array(outcomes[: curves.size_after(method, sum(outcomes[:3]))])
        total += p ** sum(outcomes) * (1 - p) ** (7 - sum(outcomes)) * np.abs(taken - taken.mean()).sum()
    assert curves.expected(method, p) == pytest.approx(total)


def test_the_printed_sums_of_dars(study):
    curves = study("cumulative_advantage")
    for successes in range(1, 4):  # the target, reached by whole rollouts, unless the cap comes first
        accuracy, spread = successes / 8, 2 * successes / 8 * (1 - successes / 8)
        assert 4 <= curves.printed(curves.Method("no std", "et"), accuracy) < 4 + spread
        assert (
            8 * (1 - accuracy) <= curves.printed(curves.Method("no std", "hw"), accuracy) < 8 * (1 - accuracy) + spread
        )
    assert curves.size_after(curves.Method("no std", "hw"), 0) == 32
    assert curves.size_after(curves.Method("std", "hw", 64), 0) == 31  # sqrt(8^2 * 15) = 30.98: no cap of 32 binds


@pytest.mark.parametrize("schedule", ["et", "hw", None])
def test_mean_rollouts_are_those_of_all_first_passes_that_the_samples_hold(study, schedule):
    costs = study("rollouts_per_problem")
    samples = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    table = {"et": [32, 19, 11], "hw": [32, 32, 16], None: [32, 32, 32]}[schedule]  # after 0, 1, 2 of 8; Table of DARS
    sizes = [table[sum(first)] for first in itertools.combinations(samples, 8)]
    assert costs.mean_rollouts(10, 2, schedule, 32) == pytest.approx(np.mean(sizes))


def test_savings_are_counted_in_rollouts_and_in_tokens(study):
    costs = study("rollouts_per_problem")

    def tally(successes: int, length: int):
        return costs.Tally("p", "3", 64, 64, successes, 0, 0, 0, 0, 0, 0, 0, 64 * length, 0, 0, 0)

    told = costs.of_all([tally(0, 30), tally(64, 10)], "hw", 32)  # 32 rollouts of 30 tokens, 8 of 10
    assert told == pytest.approx(
        {"rollouts": 20, "tokens": 520, "saved_rollouts": 0.375, "saved_tokens": 1 - 1040 / 1280}
    )


def test_a_latency_is_that_of_waves_counted_one_by_one(study):
    latency = study("latency")

    def waves(rollouts: int, parallel: int) -> int:
        return len(range(0, rollouts, parallel))

    for parallel, rounds in itertools.product((1, 3, 8, 64, 100, 255, 256, 257), (1, 2, 4)):
        split = sum(waves(256 // rounds, parallel) for _ in range(rounds))
        assert latency.ratio(256, parallel, rounds) == split / waves(256, parallel)
    assert latency.ratio(256, 256, 4) == 4  # as many rounds as were one
    assert latency.printed(256, 1, 4) == 1
    assert latency.printed(256, 10**9, 4) == pytest.approx(4)


def test_recoverability_counts_chains_not_prefixes(study):
    recoverability = study("recoverability")
    hits = np.concatenate([np.arange(40) % 2, np.arange(40) % 10 == 0]).astype(int)  # 20 of 40, then 4 of 40
    cuts = recoverability.Cuts(
        np.arange(80), np.full(80, 4), np.repeat([0.25, 0.75], 40), hits * 3, np.ones(80, np.bool_)
    )
    told = recoverability.statistics(cuts)
    assert told["spearman_of_bins"] == pytest.approx(-1)
    assert told["w"] < 0
    assert told["auc"] == pytest.approx((20 * 36 + (20 * 20 + 4 * 36) / 2) / (24 * 56))  # pairs in order, ties half
    assert recoverability.binned(cuts)[:, 0] == pytest.approx([0.25, 0.5, np.sqrt(0.25 / 40)])  # the error of a share
    pairs = cuts._replace(chain=np.arange(80) // 2)  # one hit and one miss in every chain: chains do not differ
    assert recoverability.binned(pairs)[2, 0] == pytest.approx(0)


def test_every_value_of_a_sweep_is_a_recipe_that_differs_in_it_alone(study):
    from outrider.config import load_recipe

    pivots, found = study("pivots"), {}
    for sweep, values in pivots.SWEEPS.items():
        for value, name in values.items():
            file = STUDIES / "recipes" / f"{name}.yaml"
            found[sweep, value] = load_recipe(str(file) if file.exists() else name)
    base = found["lambda", "1"]
    for (sweep, value), recipe in found.items():
        changed = {line.split(":")[0] for line in base.difference(recipe)} - {"name", "summary"}
        if recipe.name == pivots.BASE:
            assert not changed
        elif sweep == "lambda":
            assert recipe.objective.streams == {"main": 1.0, "branch": float(value)}
            assert changed == {"objective.streams.branch"}
        elif sweep == "gamma" and value != "root":
            assert recipe.explore[1].select.gamma == float(value)
            assert all(key.startswith("explore.1") for key in changed)
        elif value in ("P1B4", "P2B4"):
            assert (recipe.explore[1].pivots, recipe.explore[1].branches) == (int(value[1]), int(value[3]))


def test_numbers_of_branches_are_compared_without_a_cap_and_apart_from_the_rest(study, monkeypatch):
    from outrider.config import load_recipe

    pivots, asked = study("pivots"), []
    monkeypatch.setattr(subprocess, "run", lambda command, check, env: asked.append(command))
    assert pivots.bench(["pivots", "gamma"], Path("there"), ["--seeds", "3", "--dry-run"]) == {}
    folders = [command[command.index("--out") + 1] for command in asked]
    assert folders == [str(Path("there/capped")), str(Path("there/uncapped"))]
    assert [command[-1] for command in asked] == ["--dry-run", "explore.1.cap=null"]
    recipes = asked[1][asked[1].index("bench") + 1 : asked[1].index("--base")]
    stages = [load_recipe(recipe, ["explore.1.cap=null"]).explore[1] for recipe in recipes]
    assert [(s.pivots, s.branches, s.which, s.cap) for s in stages] == [
        (1, 8, "failed", None), (1, 4, "failed", None), (2, 4, "failed", None), (1, 8, "all", None)
    ]  # fmt: skip


def test_only_failed_rollouts_are_branched_by_deep_grpo_and_deeper_is_likelier(study):
    pivots = study("decision_tree").pivots
    assert pivots("DEEP-GRPO", ("B", "F")) == [(1.0, [])]  # F is correct
    (first, at_b), (second, at_e) = pivots("DEEP-GRPO", ("B", "E", "L"))
    assert (at_b, at_e) == (["B"], ["E"])
    assert (first, second) == pytest.approx((0.2, 0.8))  # (1/3)^2 to (2/3)^2
    assert pivots("tree", ("B", "F")) == [(1.0, ["B"])]


def test_distinct_correct_answers_are_those_of_every_choice_of_samples(study):
    models, k = study("sft_and_rl"), 3
    samples = ["a", "a", "b", "", "", ""]  # three correct ones in six, two alike
    found = models.Answers(["p"], np.array([6]), np.array([3]), [samples], [["a", "a", "b"]], np.zeros(1))
    subsets = [{x for x in chosen if x} for chosen in itertools.combinations(samples, k)]
    assert models.distinct_right(found, k) == pytest.approx([np.mean([len(each) for each in subsets])])
    none = found._replace(c=np.array([0]), right=[[]])
    assert models.distinct_right(none, k).tolist() == [0]
    assert models.shifts(found, none) == {"both": 0, "lost": 1, "gained": 0}
    assert models.shifts(none, found) == {"both": 0, "lost": 0, "gained": 1}


def test_a_model_of_one_seed_is_compared_with_every_seed_of_another(study):
    models = study("sft_and_rl")
    base = models.measured([np.array([0.0, 1.0, np.nan])])
    trained = models.measured([np.array([0.5, 1.0, 9.0]), np.array([1.0, 1.0, 9.0])])
    assert models.change(base, trained).value == pytest.approx(0.375)  # the third problem is unknown on one side


def test_what_a_token_writes_is_read_from_its_place(study):
    roles = study("_roles")
    letters = {"first operand": "f", "operator": "o", "second operand": "s", "result": "r", "remainder": "m"}
    found = roles.COUNTDOWN.of([*"11-9=2,8 2;2+8=10", ""])
    # a sign that ends a number is a choice of that number; the end token chooses nothing that is asked here
    assert "".join(letters[roles.COUNTDOWN.names[role]] for role in found[:-1]) == "ffossrrmmmmfossrr"
    assert found[-1] == -1


def test_what_a_token_writes_is_read_from_its_word(study):
    """However the words are cut: with the space before them, in the middle, or with a space of its own."""
    roles = study("_roles")
    letters = {"number": "d", "operation": "o", "name": "n", "word": "w", "mark": "m"}

    def told(*parts):
        return "".join(letters[roles.PROSE.names[role]] if role >= 0 else "-" for role in roles.PROSE.of(parts))

    assert told("Ben", " has", " ", "6", " ti", "mes", " ", "1", "2", ".", "") == "nwddooddd" + "m-"
    assert told(" 3", "4", " *", " 5", " =", " 170", ",", " so", " Vera") == "ddodod" + "mwn"
    assert told("Benn", "y", ":") == "wwm"  # no name that stories have


def test_a_law_that_goes_on_is_missed_by_nothing_and_one_that_stops_by_the_step(study):
    entropy = study("entropy_of_learning")
    entropies = np.linspace(0.2, 0.1, 60)
    rewards = 2.0 - 1.5 * np.exp(entropies) + np.tile([0.01, -0.01], 30)
    law = entropy.fit_exchange(entropies[:30], rewards[:30])
    same, lower = (entropy.beyond(law, entropies[30:], rewards[30:] - step) for step in (0.0, 0.1))
    assert same["low"] < 0 < same["high"]
    assert lower["value"] == pytest.approx(same["value"] - 0.1)
    assert lower["high"] < 0


@pytest.mark.parametrize("steps", [[65, 70, 74], [60, 65, 70]])
def test_what_learning_rests_on_is_asked_of_five_updates_at_beginning_and_end(study, tmp_path, steps):
    learning = study("what_learning_rests_on")
    for step in steps:
        (tmp_path / "grpo-0" / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    (tmp_path / "grpo-0" / "table.md").touch()
    (tmp_path / "start-0" / "model").mkdir(parents=True)  # both runs are finished and are not made again
    first, last = learning.windows(tmp_path, 0, "countdown").values()
    assert (first.before, first.after, first.steps) == ("start", "trained", "1-5")
    assert (last.before, last.after, last.steps) == ("step-65", "step-70", "66-70")


def test_changes_that_follow_entropy_alone_leave_nothing_to_perplexity(study):
    learning = study("what_learning_rests_on")
    draw = np.random.default_rng(0)
    entropy = draw.random(4000)
    lengths = np.full(200, 20)
    roles = np.arange(4000) % 2
    found = learning.Changes(entropy * 0.01, entropy, -entropy, entropy, roles, lengths, np.arange(200) % 2.0)
    told = learning.about_changes(found, ["even", "odd"])
    by_perplexity = [group["value"] for group in told["largest_fifth_by"]["perplexity"]]
    assert told["largest_fifth_expected_from_entropy_by_perplexity"] == pytest.approx(by_perplexity, abs=1e-9)
    assert by_perplexity[0] < 0.15 < 0.25 < by_perplexity[-1]  # which without that would look like an effect of it
    assert told["within_bound"] == 1
    assert told["by_role"]["size"]["odd"]["value"] == pytest.approx(0.01 * entropy[1::2].mean())
    assert [group["value"] for group in told["largest_fifth_by"]["entropy"]] == pytest.approx([0, 0, 0, 0, 1], abs=2e-3)
