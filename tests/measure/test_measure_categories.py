"""Token categories: words found in the text, whatever the tokens, by a lexicon that a user can replace."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UserError
from outrider.measure.categories import LEXICON, UNMATCHED, Lexicon

BUILT_IN = Lexicon.load()


def kinds(text, lexicon=BUILT_IN):
    """Category by word or sign of a text, each a token of its own."""
    spans = [m.span() for m in re.finditer(r"[\w]+|[^\w\s]", text)]
    found = lexicon.categorise(text, spans)
    return {text[a:b]: lexicon.names[k] for (a, b), k in zip(spans, found, strict=True)}


@pytest.mark.parametrize(
    ("category", "examples"),
    [  # Table 1 of the report
        ("formal_reasoning", ["1", "3.14", "+", "*", "=", "x", "y", "π", "√2", "∑", r"\frac", r"\sqrt{2}", "-"]),
        ("logical_structuring", ["therefore", "because", "however", "but", "first", "next", "finally", "and", "also"]),
        ("metacognitive", ["Let's check", "Let\u2019s  check", "Correction", "Wait", "In summary", "First, I will"]),
        ("semantic_support", ["the", "is", "of", "problem", "solution", "correct", "final", "no", "on"]),
        (UNMATCHED, ["Aya", "kilometers", ",", ";", "well-known", "(", ""]),
    ],
)
def test_examples_of_every_category(category, examples):
    for example in examples:
        assert set(kinds(example).values()) <= {category}, example


def test_context_decides_what_a_word_or_sign_is():
    assert kinds("first we add")["first"] == "logical_structuring"
    assert kinds("First, I will add")["First"] == "metacognitive"
    assert kinds("an x-y plane") == {
        "an": "semantic_support", "x": "formal_reasoning", "-": UNMATCHED, "y": "formal_reasoning", "plane": UNMATCHED,
    }  # fmt: skip
    assert kinds("x - 3")["-"] == "formal_reasoning"
    assert kinds("5! wow!")["5"] == "formal_reasoning"
    assert kinds("problem's")["s"] == UNMATCHED  # no variable s
    assert kinds("4,400")[","] == "formal_reasoning"
    assert kinds("4,40")[","] == UNMATCHED
    assert kinds("theorem") == {"theorem": UNMATCHED}  # not "the"
    assert kinds("underdo no-one")["underdo"] == UNMATCHED


def test_a_word_in_parts_gives_all_its_tokens_the_category():
    parts = ["There", "fore", " we", " l", "et", " us", " ", "chec", "k", "", " 1", "2"]
    names = [BUILT_IN.names[k] for k in BUILT_IN.categorise_token_texts(parts)]
    assert names == (
        ["logical_structuring"] * 2 + ["semantic_support"] + ["metacognitive"] * 3 + [UNMATCHED]
        + ["metacognitive"] * 2 + [UNMATCHED] + ["formal_reasoning"] * 2
    )  # fmt: skip
    assert BUILT_IN.categorise_token_texts([]).tolist() == []


@settings(max_examples=25)
@given(st.text(alphabet="wait İx\u2019'=, \n3", max_size=30), st.lists(st.integers(0, 30), max_size=6))
def test_cutting_a_token_never_changes_what_its_characters_are(text, cuts):
    """One token per character is the truth; a longer token takes the first known kind among its characters."""
    whole = BUILT_IN.categorise(text, [(i, i + 1) for i in range(len(text))])
    stops = sorted({0, *(c for c in cuts if c < len(text)), len(text)})
    found = BUILT_IN.categorise_token_texts([text[a:b] for a, b in pairwise(stops)])
    unmatched = len(BUILT_IN.names) - 1
    for (a, b), kind in zip(pairwise(stops), found, strict=True):
        assert kind == next((k for k in whole[a:b] if k != unmatched), unmatched)


def test_no_word_is_in_two_categories_of_the_built_in_lexicon_by_accident():
    """An earlier category would take it, and the later line would be a lie."""
    checked = set()
    data = re.split(r"^(\w+):$", LEXICON.read_text(), flags=re.MULTILINE)
    for name, block in zip(data[1::2], data[2::2], strict=True):
        for word in re.findall(r"^    - ([a-z][^'\n]*?)$", block, re.MULTILINE):
            assert set(kinds(word).values()) <= {name, UNMATCHED}, word
            assert name in kinds(word).values(), word
            checked.add(word)
    assert {"verify", "therefore", "theta", "the"} <= checked


def test_a_file_replaces_the_built_in_lexicon(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("denial:\n  words: [no, on, Off]\ndigits:\n  patterns: ['[0-9]']\n")
    mine = Lexicon.load(path)
    assert mine.names == ("denial", "digits", UNMATCHED)
    assert kinds("No 7 off the", mine) == {"No": "denial", "7": "digits", "off": "denial", "the": UNMATCHED}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "at least one category"),
        ("[a, b]", "at least one category"),
        ("a: [b]", "must hold words"),
        ("a: {word: [b]}", "unknown key 'word'; did you mean 'words'"),
        ("a: {words: b}", "a.words must be a list"),
        ("a: {words: [[b]]}", "a.words must be a list"),
        ("a: {words: []}", "neither words nor patterns"),
        ("a: {patterns: ['(']}", "not a valid regular expression"),
        ("a: {words: [x]}\na: {words: [y]}", "'a' is given twice"),
        ("a: {words: [x], words: [y]}", "'words' is given twice"),
        ("a: {words: [x", "mine.yaml"),
    ],
)
def test_mistakes_in_a_lexicon_are_told_in_a_sentence(tmp_path, text, complaint):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(complaint)):
        Lexicon.load(path)


def test_a_missing_lexicon_and_too_many_categories(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        Lexicon.load(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="at most 255"):
        Lexicon.of({f"c{i}": {"words": ["x"]} for i in range(256)})
