"""The twenty questions of a reader: every answer stands where the list says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
QUESTIONS = yaml.safe_load(Path(__file__).with_name("questions.yaml").read_text("utf-8"))


def section(page: str, anchor: str) -> str:
    """The text from the heading with this anchor to the next one of its level; the whole page without an anchor."""
    if not anchor:
        return page
    headings = [*re.finditer(r"^(#+) (.*)$", page, re.MULTILINE)]
    for i, heading in enumerate(headings):
        if re.sub(r"[^\w\- ]", "", heading[2].lower()).replace(" ", "-") == anchor:
            ends = [later.start() for later in headings[i + 1 :] if len(later[1]) <= len(heading[1])]
            return page[heading.start() : ends[0] if ends else None]
    raise LookupError(f"no heading has the anchor {anchor}")


@pytest.mark.parametrize("question", QUESTIONS, ids=[question["ask"][:50] for question in QUESTIONS])
def test_the_answer_stands_where_the_list_says(question: dict[str, str]) -> None:
    place, _, anchor = question["at"].partition("#")
    text = " ".join(section((ROOT / place).read_text("utf-8"), anchor).split())
    assert question["says"].lower() in text.lower()


def test_there_are_twenty_questions() -> None:
    assert len({question["ask"] for question in QUESTIONS}) == 20
