"""Prompts by name."""

import json

import pytest
from pydantic import ValidationError

from outrider.config import list_recipes, load_recipe
from outrider.tasks.prompts import TEMPLATES
from outrider.tasks.table import Table


def table(tmp_path, **options) -> Table:
    for name in ("train", "test"):
        row = {"problem": f"{name} {{x}}?", "question": f"ColumnMapping by {name}: $\\frac{{1}}{{2}}$?", "answer": "3"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
    files = {"train_data": str(tmp_path / "train.jsonl"), "heldout_data": str(tmp_path / "test.jsonl")}
    return Table(**files, **options)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_shows_the_problem_once_and_leaves_no_brace_behind(tmp_path, name):
    for question, shown in (("problem", "train {x}?"), ("question", "ColumnMapping by train: $\\frac{1}{2}$?")):
        problem = table(tmp_path, prompt=name, question=question).train(0)
        assert problem.prompt.count(shown) == 1
        assert problem.metadata == {"question": shown, "place": problem.metadata["place"]}
        around = problem.prompt.replace(shown, "")
        assert around.replace("\\boxed{}", "").isprintable() == ("\n" not in around)
        assert "{" not in around.replace("\\boxed{}", "")
        assert ("\\boxed{}" in around) == (name not in ("answer-line", "search", "bare"))


def test_the_prompt_of_qwen_math_is_the_one_it_was_trained_with(tmp_path):
    assert table(tmp_path, prompt="qwen-math").train(0).prompt == (
        "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n"
        "<|im_start|>user\ntrain {x}?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_names_are_checked_and_texts_are_texts(tmp_path):
    assert table(tmp_path, prompt="qwen-math: {problem}").train(0).prompt == "qwen-math: train {x}?"
    for prompt, sentence in (
        ("qwen-mth", "there is no template 'qwen-mth' \\(did you mean 'qwen-math'\\?\\)"),
        ("Solve it.", "without a {field} it is the same for every problem"),
    ):
        with pytest.raises(ValidationError, match=sentence):
            table(tmp_path, prompt=prompt)
    with pytest.raises(ValidationError, match=r"\{answer\} would show the gold answer"):
        table(tmp_path, prompt="boxed", question="answer")


def test_recipes_name_their_prompts():
    for info in list_recipes():
        task = load_recipe(info.name, setting="paper").task
        assert not isinstance(task, Table) or task.prompt in TEMPLATES, info.name
