"""The documentation as a site: every page is reached, every link lands, and the reference has every option."""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path

import pytest
import yaml

from outrider.config import Recipe, list_recipes, load_recipe
from outrider.report.findings import CHECKS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tools():
    """The modules that mkdocs' hooks are made of; none of them needs mkdocs."""
    sys.path.insert(0, str(ROOT / "tools/pages"))
    try:
        import catalogue
        import docstrings
        import option_tables
        import repository

        import commands
    finally:
        sys.path.pop(0)
    return commands, docstrings, option_tables, repository, catalogue


@pytest.fixture(scope="module")
def site(tools):
    commands, docstrings, option_tables, repository, catalogue = tools
    generated = {f"docs/reference/{name}.md": text for name, text in option_tables.pages().items()}
    generated |= {f"docs/api/{name}.md": text for name, text in docstrings.pages(ROOT / "src/outrider").items()}
    generated |= {f"docs/reference/{one.__name__}.md": one.page() for one in (catalogue, commands)}
    return repository.assembled(ROOT, generated)


def navigation() -> list:
    text = (ROOT / "mkdocs.yml").read_text()
    return yaml.safe_load(re.sub(r"!!python/\S+ \{.*\}\}", "null}", text))["nav"]


def places(items: list) -> list[str]:
    return [
        place
        for item in items
        for below in item.values()
        for place in (places(below) if type(below) is list else [below])
    ]


def test_the_navigation_has_every_page_once(site):
    pages, _ = site
    known = places(navigation())
    assert len(set(known)) == len(known)
    assert set(known) <= pages.keys()
    assert {place for place in pages if not place.startswith("repository/")} - {*known} <= {"decisions/index.md"}


def anchors(page: str) -> set[str]:
    """Those of the headings: what is written behind one, or its words as the site's slugs have them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE):
        words, _, given = heading.partition(" { #")
        plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", words).lower()
        found.add(given.removesuffix(" }") or re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def test_every_link_of_the_site_lands(site, tools):
    """On its anchor too. mkdocs checks this as well, where it is installed."""
    pages, files = site
    repository = tools[3]
    there = {*pages, *files, *(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.*"))}
    lost, seen = [], 0
    for place, text in pages.items():
        for code, part in repository.split(text):
            for target in [] if code or text.startswith("---\nhide") else repository.LINK.findall(part):
                path, _, anchor = target.partition("#")
                if re.match(r"[a-z]+:", path):
                    continue
                seen += 1
                found = posixpath.normpath(posixpath.join(posixpath.dirname(place), path)) if path else place
                if found not in there or (anchor and anchor not in anchors(pages[found])):
                    lost.append(f"{place}: {target}")
    assert seen > 500
    assert lost == []


def test_a_link_to_nothing_is_refused(tools, tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("# A page\n")
    (tmp_path / "docs/index.md").write_text("[here](../CHANGELOG.md) and [there](../src/nothing.py)\n")
    with pytest.raises(FileNotFoundError, match=r"docs/index.md links to ../src/nothing.py"):
        tools[3].assembled(tmp_path, {})


def test_links_in_code_are_no_links(tools):
    text = "[a](b.md)\n\n```\n[a](b.md)\n```\n\n[a](https://b) [a](#c)\n"
    assert tools[3].linked(text, lambda path: f"x/{path}") == text.replace("[a](b.md)", "[a](x/b.md)", 1)


def keys(data: dict, prefix: str = "") -> list[str]:
    return [
        key
        for name, value in data.items()
        for key in (keys(value, f"{prefix}{name}.") if isinstance(value, dict) else [f"{prefix}{name}"])
    ]


def test_the_reference_has_every_key_of_a_resolved_recipe(site):
    """Told from what ``--dry-run`` prints, not from the models that the pages are made of."""
    pages, _ = site
    documented = set(re.findall(r"^\| `([\w.]+)` \|", pages["reference/recipe.md"], re.MULTILINE))
    resolved = load_recipe("prorl").resolved() | {
        "policy": load_recipe("prorl", ["policy.lora={}"]).resolved()["policy"]
    }
    components = r"task\.|credit\.|objective\.(surrogate|aggregate|select|correction|streams)\."
    wanted = [key for key in keys(resolved) if not re.match(components, key)]
    assert len(wanted) > 60
    assert [key for key in wanted if key not in documented] == []
    for page, found in (
        ("explore", resolved["explore"]),
        ("credit", resolved["credit"]["main"]),
        ("task", [resolved["task"]]),
    ):
        for component in found:
            [(name, options)] = component.items()
            section = re.search(
                rf"^### `{name}` .*?(?=^##)", pages[f"reference/{page}.md"] + "\n## ", re.MULTILINE | re.DOTALL
            )
            assert all(f"| `{option}` |" in section[0] for option in options)


def test_every_option_has_a_meaning_and_a_type(site):
    pages, _ = site
    rows = [
        re.split(r"(?<!\\)\|", line)
        for place, text in pages.items()
        if place.startswith("reference/")
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    assert len(rows) > 200
    assert [row[1] for row in rows if not (row[2].strip() and row[5].strip())] == []
    assert [row for row in rows if re.search(r"outrider\.|<class|Annotated", row[2])] == []


def test_defaults_on_the_page_are_those_of_a_recipe(site):
    pages, _ = site
    cells = dict(re.findall(r"^\| `([\w.]+)` \|.*\| `(.*)` \| .* \|$", pages["reference/recipe.md"], re.MULTILINE))
    least = Recipe(model="base:countdown", task="countdown", explore=["uniform"], credit={"main": ["group_mean"]})
    for key in ("seed", "learn.betas", "learn.lr", "sample.stop", "reward.timeout", "evaluate.n", "objective.kl.coef"):
        value = least.resolved()
        for part in key.split("."):
            value = value[part]
        assert json.loads(cells[key]) == value


@pytest.mark.parametrize(
    ("docstring", "page"),
    [
        ("Half of :math:`x`; see :class:`~outrider.record.Row`.", r"Half of \(x\); see `Row`."),
        ("One\n``a\n  b``.", "One\n`a\n  b`."),
        (".. math:: a \\\\\n          b\n\nso", "\\[\\begin{aligned}a \\\\\nb\\end{aligned}\\]\n\nso"),
        ("As\n\n.. math::\n\n    a = b\n\nsays.", "As\n\n\\[a = b\\]\n\nsays."),
        ("Does.\n\nRaises:\n    UserError: no\n        more.", "Does.\n\n*Raises*\n\n- `UserError`: no more."),
        ("Holds\n\n====  ==\n``a``  b\n====  ==", "Holds\n\n```text\na  b\n```"),
        ("So\n\n::\n\n    1 2\n    3", "So\n\n```text\n1 2\n3\n```"),
        ("Is.\n\n>>> 1\n1", "Is.\n\n```pycon\n>>> 1\n1\n```"),
    ],
)
def test_docstrings_become_markdown(tools, docstring, page):
    assert tools[1].markdown(docstring) == page


def test_no_markup_of_docstrings_is_left_on_a_page(site):
    pages, _ = site
    for place, text in pages.items():
        if place.startswith(("api/", "reference/")):
            prose = "".join(part for code, part in re.findall(r"(```.*?```)|(.+?(?=```|\Z))", text, re.DOTALL))
            assert not re.search(r":\w+:`|\.\. math|(?<!`)``(?!`)", prose), place


def test_the_list_for_readers_without_a_browser_names_every_page(site, tools):
    pages, _ = site
    listed = tools[3].index(navigation(), pages, "Outrider", "What it is.")
    assert re.findall(r"^- \[.*?\]\((.*?)\): \S", listed, re.MULTILINE) == places(navigation())


# what pages say of recipes and findings


def test_the_page_of_the_recipes_names_each_of_them():
    text = (ROOT / "docs/recipes.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    named: set[str] = set()
    for row in rows:
        first = ""
        for name in re.findall(r"`([\w-]+)`", row):
            named.add(first + name if name.startswith("-") else name)
            first = first if name.startswith("-") else name
    for both in ("dars-et", "dars-hw"):
        assert f"`{both}`" in text
        named.add(f"{both}-breadth")
    assert {info.name for info in list_recipes()} <= named


def test_which_method_names_what_there_is():
    text = (ROOT / "docs/which-method.md").read_text()
    known = {info.name for info in list_recipes()}
    assert known & set(re.findall(r"`([\w-]+)`", text)) >= {"grpo", "passk-training", "dars-hw-breadth"}
    said = set(re.findall(r"^\| \*([a-z ]+)\*", text.partition("## From what you have")[0], re.MULTILINE))
    assert len(said) >= 6
    assert said <= {name.replace("_", " ") for name in CHECKS}


def test_the_readme_is_short_and_data_comes_before_countdown():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 180
    assert "Countdown" not in text.partition("## Train your model on your data")[0]
