"""The page for a user's own model and data: what it shows can be read, and names what there is."""

import re
from pathlib import Path

from outrider.config import list_recipes, load_recipe
from outrider.model.options import PolicyOptions, TrainedPolicyOptions
from outrider.tasks.prompts import TEMPLATES

PAGE = (Path(__file__).parents[2] / "docs/bring-your-own.md").read_text()


def test_the_recipe_of_the_page_reads_the_tables_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "bring-your-own.md", "exec"), {})
    text, verl = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    Path("verl.yaml").write_text(f"extends: grpo\nmodel: base:countdown\npolicy: {{chat: true}}\n{verl}")
    assert load_recipe("verl.yaml").task.conversational
    Path("sums.yaml").write_text(text)
    recipe = load_recipe("sums.yaml", ["policy.lora={rank: 8, alpha: 16}", "policy.export=adapter"])
    assert recipe.task.counts == {"train": 300, "heldout": 61, "excluded": 0}
    problem = recipe.task.train(0)
    assert re.fullmatch(r":\d+\+\d+=", problem.prompt)
    assert recipe.task.verify(problem, f"{problem.answer},", True).success


def test_the_page_names_every_template_and_option():
    table = PAGE.partition("## Prompts")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(TEMPLATES)
    for options in (PolicyOptions, TrainedPolicyOptions):
        assert all(f"policy.{name}=" in PAGE for name in options.model_fields)


def test_the_settings_of_the_page_are_there():
    table = PAGE.partition("## The papers' runs")[2].partition("```")[0]
    known = {info.name for info in list_recipes()}
    for line in re.findall(r"^\| `.*\|$", table, re.MULTILINE):
        recipes, settings = (re.findall(r"`([\w.-]+)`", cell) for cell in line.split("|")[1:3])
        for recipe in set(recipes) & known:
            for setting in settings:
                assert load_recipe(recipe, setting=setting).from_setting == setting
