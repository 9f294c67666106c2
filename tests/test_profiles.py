"""The papers' real settings by name: what a profile says, checked against the papers' own numbers."""

import pytest

from outrider.config import list_recipes, load_recipe
from outrider.errors import UserError

# model, problems a step, rollouts of the first stage, most response tokens, learning rate, steps, training table
PAPERS = {
    ("deep-grpo", "gsm8k-0.5b"): ("Qwen/Qwen2.5-0.5B-Instruct", 64, 8, 768, 1e-6, 584, "gsm8k"),
    ("deep-grpo", "math-7b"): ("Qwen/Qwen2.5-Math-7B", 64, 8, 3072, 1e-6, 666, "MATH-lighteval"),
    ("dr-grpo", "math-7b"): ("Qwen/Qwen2.5-Math-7B", 128, 8, 3000, 1e-6, 1331, "MATH-lighteval"),
    ("dr-grpo", "math-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 128, 8, 3000, 1e-6, 1331, "MATH-lighteval"),
    ("dars-et", "openr1-7b"): ("Qwen/Qwen2.5-Math-7B", 128, 8, 3072, 1e-6, 500, "Openr1-Math-46k"),
    ("dars-hw", "openr1-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 128, 8, 3072, 1e-6, 600, "Openr1-Math-46k"),
    ("dars-hw-breadth", "openr1-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 3072, 8, 3072, 5e-6, 105, "Openr1-Math-46k"),
    ("depth-naive", "openr1-1.5b"): ("Qwen/Qwen2.5-Math-1.5B", 128, 32, 3072, 1e-6, 600, "Openr1-Math-46k"),
    ("dars-et", "math-llama-8b"): ("meta-llama/Llama-3.1-8B", 128, 16, 3072, 1e-6, 300, "MATH-lighteval"),
    ("dars-et-breadth", "math-llama-8b"): ("meta-llama/Llama-3.1-8B", 3072, 16, 3072, 1e-6, 70, "MATH-lighteval"),
    ("position", "dapo-7b"): ("Qwen/Qwen2.5-7B", 512, 8, 8192, 1e-6, 300, "DAPO-Math-17k"),
    ("xrpo", "dapo-1.7b"): ("Qwen/Qwen3-1.7B", 16, 4, 16384, 2e-6, 625, "DAPO-Math-17k"),
}


@pytest.mark.parametrize(("name", "profile"), PAPERS)
def test_a_profile_is_the_run_of_the_paper(name, profile):
    model, problems, n, tokens, rate, steps, table = PAPERS[name, profile]
    recipe = load_recipe(name, [f"profile={profile}"])
    assert (recipe.model, recipe.train.problems, recipe.explore[0].n) == (model, problems, n)
    assert (recipe.sample.max_tokens, recipe.learn.lr, recipe.train.steps) == (tokens, rate, steps)
    assert table in recipe.task.train_data
    assert (recipe.policy.dtype, recipe.learn.gradient_checkpointing) == ("bfloat16", True)
    assert load_recipe(name, [f"profile={profile}", "model=./weights"]).model == "./weights"


def test_a_profile_as_a_gpu_takes_it_changes_nothing_else():
    for name, profile in (
        ("deep-grpo", "gsm8k-0.5b"),
        ("xrpo", "dapo-1.7b"),
        ("ppl", "dapo-7b"),
        ("dr-grpo", "math-7b"),
    ):
        plain, named = (load_recipe(name, [f"profile={p}"]) for p in ("null", profile))
        assert [line.partition(":")[0] for line in plain.difference(named)] == [
            "policy.dtype",
            "learn.gradient_checkpointing",
        ]


def test_every_recipe_runs_the_embedded_task_unless_told_otherwise():
    assert all(load_recipe(info.name).from_profile == "countdown" for info in list_recipes())


EXTENDING = "extends: grpo\nlearn: {lr: 3.0e-4}\n"


def test_a_value_that_an_inherited_profile_would_replace_is_refused(tmp_path):
    """A learning rate that is written and silently not used would be the worst of both."""
    (tmp_path / "mine.yaml").write_text(EXTENDING)
    with pytest.raises(UserError, match=r"mine.yaml: learn.lr would be replaced by the profile 'countdown' of grpo"):
        load_recipe(str(tmp_path / "mine.yaml"))


@pytest.mark.parametrize(
    ("text", "lr"),
    [
        (EXTENDING + "profile: null\n", 3e-4),
        (EXTENDING + "profiles: {countdown: {learn: {lr: 5.0e-4}}}\n", 5e-4),  # who writes both knows of both
        ("extends: grpo\nlearn: {lr: 1.0e-4}\n", 1e-4),  # what the profile says too
        ("extends: grpo\nseed: 7\n", 1e-4),  # of what the profile says nothing
    ],
)
def test_what_is_no_contradiction_is_as_written(tmp_path, text, lr):
    (tmp_path / "mine.yaml").write_text(text)
    assert load_recipe(str(tmp_path / "mine.yaml")).learn.lr == lr
