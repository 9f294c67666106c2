"""The pages of the site: those in ``docs/``, the generated ones, and whatever of the repository they link to.

A page is written to be read in the repository, so its links lead to files of the repository. On the site a link out of
``docs/`` leads to a page that shows the file: code in a fence, Markdown as it is, a folder as a list.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".sh": "bash",
    ".txt": "text",
    "": "text",
}
HIDDEN = "---\nhide: [navigation, toc]\nsearch:\n  exclude: true\n---\n\n"  # a page of code, in the whole width
LAST = "---\nsearch:\n  boost: 0.1\n---\n\n"  # tables of results, which hold every word
NAMES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}


def assembled(root: Path, generated: dict[str, str]) -> tuple[dict[str, str], dict[str, Path]]:
    """Texts of all pages by their place on the site, and files that are served as they are.

    Args:
        root: of the repository.
        generated: pages that are in no file, by the place in the repository at which they would stand.
    """
    texts = {str(path.relative_to(root)): path.read_text() for path in (root / "docs").rglob("*.md")} | generated
    files: dict[str, Path] = {}
    pages: dict[str, str] = {}
    waiting = [*texts, *NAMES]
    while waiting:
        place = waiting.pop()
        if site(root, place) in pages:
            continue
        text = texts[place] if place in texts else shown(root, place)

        def follow(target: str, place: str = place) -> str:
            found = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
            if found.startswith("docs/") and (root / found).suffix != ".md" and (root / found).is_file():
                return relative(site(root, found), site(root, place))  # an asset, which mkdocs copies
            if found not in texts and not (root / found).exists():
                raise FileNotFoundError(f"{place} links to {target}, which is not there")
            if is_page(root, found):
                waiting.append(found)
            else:
                files[site(root, found)] = root / found
            return relative(site(root, found), site(root, place))

        pages[site(root, place)] = text if place not in texts and not place.endswith(".md") else linked(text, follow)
    return pages, files


def linked(text: str, follow: Callable[[str], str]) -> str:
    """A text whose relative links, outside of code, are replaced by what ``follow`` makes of their paths."""

    def replaced(found: re.Match[str]) -> str:
        path, hash_, anchor = found[1].partition("#")
        return f"{follow(path)}{hash_}{anchor}" if path and not re.match(r"[a-z]+:|/", path) else found[1]

    return "".join(part if code else LINK.sub(replaced, part) for code, part in split(text))


def split(text: str) -> Iterator[tuple[bool, str]]:
    """The text in pieces, and whether each is a fenced block."""
    end = 0
    for block in FENCE.finditer(text):
        yield False, text[end : block.start()]
        yield True, block[0]
        end = block.end()
    yield False, text[end:]


def is_page(root: Path, place: str) -> bool:
    """Whether a file is shown on a page of its own, and not served as it is."""
    path = root / place
    return place.endswith(".md") or path.is_dir() or path.suffix in LANGUAGES


def site(root: Path, place: str) -> str:
    """Where a file of the repository is on the site."""
    if place in NAMES:
        return NAMES[place]
    if place.startswith("docs/"):
        return "decisions/index.md" if place == "docs/decisions" else place.removeprefix("docs/")
    if (root / place).is_dir():
        return f"repository/{place}/index.md"
    return f"repository/{place}" if place.endswith(".md") or not is_page(root, place) else f"repository/{place}.md"


def relative(target: str, page: str) -> str:
    """A link from one place on the site to another."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def shown(root: Path, place: str) -> str:
    """The page of a file or folder outside of ``docs/``."""
    path = root / place
    if path.is_dir():
        names = sorted(p.name + "/" * p.is_dir() for p in path.iterdir() if not p.name.startswith(("_", ".")))
        return f"{HIDDEN}# `{place}`\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = path.read_text()
    if place.endswith(".md"):
        return text if text.startswith("---") or place in NAMES else f"{LAST}{text}"
    fence = "~" * 6
    return f"{HIDDEN}# `{place}`\n\n{fence}{LANGUAGES[path.suffix]}\n{text}\n{fence}\n"


def index(nav: list, pages: dict[str, str], title: str, summary: str) -> str:
    """``llms.txt``: every page of the navigation with the address of its Markdown and its first sentence."""
    lines = [f"# {title}\n", f"> {summary}\n"]

    def walk(items: list, heading: str) -> None:
        for item in items:
            [(name, below)] = item.items()
            if isinstance(below, list):
                lines.append(f"\n## {name}\n")
                walk(below, name)
            else:
                lines.append(f"- [{name}]({below}): {first_sentence(pages[below])}")

    walk(nav, "")
    return "\n".join(lines) + "\n"


def first_sentence(text: str) -> str:
    """The first sentence of a page, without links and headings."""
    plain = LINK_TEXT.sub(r"\1", "".join(part for code, part in split(text) if not code))
    paragraphs = (block.strip() for block in re.split(r"\n\s*\n", plain))
    prose = next((block for block in paragraphs if re.match(r"[\w`*]", block)), "")
    return re.split(r"(?<=[.:?])\s", " ".join(prose.split()), maxsplit=1)[0].rstrip(":")


LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
