"""The language of the project: the field's terms, short sentences in pages, noun phrases for options.

Usage: ``python tools/check_language.py [folder]``. ``words.yaml`` has the terms and their exceptions. Dated entries of
docs/log.md stay as they were written, and the changelog names what was renamed.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

LONGEST = 35
"""Words of a sentence in a page."""
TEXTS = (
    *("README.md", "CONTRIBUTING.md", "docs/**/*.md"),
    *("src/**/*.py", "src/**/*.yaml", "src/**/*.html", "src/**/*.js", "tests/**/*.py"),
    *("benchmarks/*.py", "benchmarks/studies/*.py", "tools/*.py", "examples/*.py"),
)
NOT_HELD = ("docs/log.md", "tests/docs/test_language.py")
"""Dated entries, and examples of what is found."""
GAP = r"(?:[ _-]|\s*\n\s*(?:#\s*)?)"
"""What may stand between two words."""
NO_NOUN = re.compile(r"(of|as|by|what|which|who|whose|how|where|when|after|with|without|most|least|also)\b", re.I)
"""First words of a description that is neither a noun phrase nor, for a boolean, "whether to ..."."""


class Rule(NamedTuple):
    """A word to avoid.

    Attributes:
        pattern: the word, also as a part of a name.
        say: the field's term.
        places: folders and files that the rule holds for; empty for all.
        exceptions: reasons by file.
    """

    pattern: re.Pattern[str]
    say: str
    places: list[str]
    exceptions: dict[str, str]

    def holds_for(self, name: str) -> bool:
        """Whether a file, by its path in the project, must follow the rule."""
        inside = not self.places or any(name == place or name.startswith(f"{place}/") for place in self.places)
        return inside and name not in self.exceptions


def rules(file: Path) -> list[Rule]:
    """The rules of a file like ``words.yaml``."""
    return [
        # a name ends a word at `_` and at a capital; two words may stand on two lines, also of a comment
        Rule(
            re.compile(rf"(?<![A-Za-z])(?i:{rule['word'].replace(' ', GAP)})(?![a-z])"),
            rule["say"],
            rule.get("in", []),
            rule.get("except") or {},
        )
        for rule in yaml.safe_load(file.read_text("utf-8"))
    ]


def words(root: Path, found: list[Rule]) -> Iterator[str]:
    """Every use of a word to avoid."""
    for path in files(root, TEXTS):
        name = path.relative_to(root).as_posix()
        text = path.read_text("utf-8")
        for rule in (rule for rule in found if rule.holds_for(name)):
            for hit in rule.pattern.finditer(text):
                number = text.count("\n", 0, hit.start()) + 1
                yield f"{name}:{number}: {' '.join(hit[0].split())!r}; say: {rule.say}"


def long_sentences(root: Path) -> Iterator[str]:
    """Every sentence of a page with more than 35 words."""
    for path in files(root, ("README.md", "CONTRIBUTING.md", "docs/**/*.md")):
        for sentence in sentences(path.read_text("utf-8")):
            if (length := len(sentence.split())) > LONGEST:
                yield f"{path.relative_to(root)}: {length} words: {sentence[:90]} …"


def sentences(text: str) -> Iterator[str]:
    """The sentences of a Markdown page, code as one word, without tables, headings and code blocks.

    >>> list(sentences("# Title\\n\\nOne `a b` two. Three\\nfour.\\n\\n- Five."))
    ['One CODE two.', 'Three four.', 'Five.']
    """
    text = re.sub(r"\A---\n.*?\n---\n|```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    # a block ends at an empty line, a list item, a heading, a line of a quotation, and at two spaces before a line's
    # end
    for block in re.split(r"\n\s*\n|  \n|\n(?=\s*(?:[-*]|\d+\.) |#|>)", text):
        if not block.strip() or block.strip().startswith(("|", "#", "![")) or block.startswith("    "):
            continue
        plain = re.sub(r"^\s*(?:[-*>]|\d+\.) ", "", block.strip())
        plain = re.sub(r"`[^`]*`", "CODE", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain))
        yield from re.split(r"(?<=[.!?])\)?\*{0,2} ", " ".join(plain.split()))


def undescribed(root: Path) -> Iterator[str]:
    """Every description of an option that begins with no noun."""
    for path in files(root, ("src/**/*.py",)):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        for call in (node for node in calls if getattr(node.func, "id", "") == "Field"):
            given = [keyword.value for keyword in call.keywords if keyword.arg == "description"]
            text = given[0].value if given and isinstance(given[0], ast.Constant) else ""
            if NO_NOUN.match(str(text)):
                yield f"{path.relative_to(root)}:{call.lineno}: an option is described as {text!r}"


def files(root: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    """The files of these patterns that are held to the rules."""
    for pattern in patterns:
        yield from (path for path in sorted(root.glob(pattern)) if path.relative_to(root).as_posix() not in NOT_HELD)


def main() -> int:
    """Print what breaks a rule; 1 if anything does."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    broken = [*words(root, rules(Path(__file__).with_name("words.yaml"))), *long_sentences(root), *undescribed(root)]
    if broken:
        print(f"{len(broken)} places break the rules of language:", *broken, sep="\n  ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
