"""The checker of language: it finds old words, long sentences and options without a noun, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_language", ROOT / "tools/check_language.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_language"] = module
    spec.loader.exec_module(module)
    return module


def found(checker: ModuleType, root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return [*checker.words(root, checker.rules(ROOT / "tools/words.yaml"))]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("A piece of the recipe.", "piece"),
        ("def two_pieces(): ...", "pieces"),
        ("class HandOver: ...", "HandOver"),
        ("MICRO_ROWS = 3", "MICRO_ROWS"),
        ("The response was Cut off.", "Cut off"),
        ("It was judged correct.", "judged"),
        ("worlds: 8", "worlds"),
        ("It was cut\n#   off.", "cut # off"),
    ],
)
def test_a_word_is_found_in_prose_and_in_names(checker: ModuleType, tmp_path: Path, line: str, word: str) -> None:
    [sentence] = found(checker, tmp_path, {"src/a.py": f"x = 1\n# {line}\n"})
    assert sentence.startswith(f"src/a.py:2: {word!r}; say: ")


@pytest.mark.parametrize(
    "line", ["masterpiece", "WORLD_SIZE", "an LLM judge", "refreshing", "its queries, keys and values", "worthless"]
)
def test_parts_of_other_words_and_terms_of_the_field_are_no_hits(
    checker: ModuleType, tmp_path: Path, line: str
) -> None:
    assert found(checker, tmp_path, {"src/a.py": f"# {line}\n"}) == []


def test_exceptions_and_places_hold_for_their_files_alone(checker: ModuleType, tmp_path: Path) -> None:
    files = {"docs/bench.md": "untouched/", "docs/other.md": "untouched/", "tests/a.py": "# nobody\n"}
    [sentence] = found(checker, tmp_path, files)
    assert sentence.startswith("docs/other.md:1: 'untouched'")


def test_every_exception_names_a_file_that_needs_it(checker: ModuleType) -> None:
    """An exception outlives its reason easily: the file moves, or the word goes."""
    for rule in checker.rules(ROOT / "tools/words.yaml"):
        for name, reason in rule.exceptions.items():
            assert reason
            assert (ROOT / name).is_file(), name
            assert rule.pattern.search((ROOT / name).read_text("utf-8")), f"{name} has no {rule.pattern.pattern}"


def test_a_sentence_has_at_most_35_words(checker: ModuleType, tmp_path: Path) -> None:
    fits, long = " ".join(["word"] * 35) + ".", " ".join(["word"] * 36) + "."
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(f"# {long}\n\n{fits} {fits}\n\n- {fits}\n\n```\n{long}\n```\n| {long} |\n")
    assert [*checker.long_sentences(tmp_path)] == []
    (tmp_path / "docs/a.md").write_text(f"{fits}\n\n- {long}\n> {long}\n")
    assert [line.split(": ")[1] for line in checker.long_sentences(tmp_path)] == ["36 words", "36 words"]


def test_an_option_is_described_by_a_noun(checker: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text(
        'class A:\n    a = Field(1, description="what decays")\n    b = Field(1, description="AdamW betas")\n'
        '    c = Field(False, description="whether to drop the KV cache")\n'
    )
    assert [*checker.undescribed(tmp_path)] == ["src/a.py:2: an option is described as 'what decays'"]


def test_the_log_stays_as_it_was_written(checker: ModuleType, tmp_path: Path) -> None:
    assert found(checker, tmp_path, {"docs/log.md": "Nobody is told apart."}) == []


def test_words_are_those_of_a_list_that_can_be_read() -> None:
    listed = yaml.safe_load((ROOT / "tools/words.yaml").read_text("utf-8"))
    assert all(set(rule) <= {"word", "say", "in", "except"} for rule in listed)
