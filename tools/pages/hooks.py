"""What mkdocs calls while it builds the site: pages from the repository, formulas as MathML, Markdown beside HTML."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import cards
import catalogue
import docstrings
import option_tables
import repository
import search_weights
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import commands

ROOT = Path(__file__).parents[2]
# what the converter does not know, and would print as it stands
UNKNOWN = ((r"\\arg(?![a-z])", r"\\mathrm{arg}\\,"), (r"\\[bB]igg?(?=\\[lr](ceil|floor))", ""))
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Every page, in place of those that mkdocs found: links out of ``docs/`` lead to pages that show the files."""
    pages, others = repository.assembled(ROOT, generated())
    for place, content in [*pages.items(), *((place, path.read_bytes()) for place, path in others.items())]:
        if found := files.get_file_from_path(place):
            files.remove(found)
        files.append(File.generated(config, place, content=content))
    config.extra["pages"] = pages
    return files


def generated() -> dict[str, str]:
    """The pages that are read from the code, by where they would stand in the repository."""
    texts = {f"docs/reference/{name}.md": text for name, text in option_tables.pages().items()}
    texts |= {f"docs/api/{name}.md": text for name, text in docstrings.pages(ROOT / "src/outrider").items()}
    return texts | {f"docs/reference/{one.__name__}.md": one.page() for one in (catalogue, commands)}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> None:
    """The weight of the page in search."""
    page.meta["search"] = search_weights.weight(page.file.src_uri, config.nav or [])


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, and tables of texts as cards for phones."""
    return cards.with_cards(with_formulas(content))


def with_formulas(content: str) -> str:
    """Formulas as MathML, which browsers draw without a script."""

    def drawn(found: re.Match[str]) -> str:
        display = "block" if found[1] == "div" else "inline"
        formula = html.unescape(found[2]).strip()
        for unknown, known in UNKNOWN:
            formula = re.sub(unknown, known, formula)
        mathml = convert(formula, display=display)
        if left := re.search(r"\\[a-zA-Z]+", mathml):
            raise PluginError(f"a formula has {left[0]}, which cannot be drawn: {formula}")
        return mathml

    return FORMULA.sub(drawn, content)


def on_post_build(config: MkDocsConfig) -> None:
    """Each page as Markdown beside its HTML, and the list of them."""
    out, pages = Path(config.site_dir), config.extra["pages"]
    for place, text in pages.items():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text(text)
    said = repository.index(config.nav or [], pages, config.site_name, config.site_description or "")
    (out / "llms.txt").write_text(said)
