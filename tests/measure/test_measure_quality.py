"""Every rule by responses that break it and by ones that nearly do; formulas, scripts and letters one by one."""
# ruff: noqa: RUF001  (letters that look alike are what some of this is about)

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.measure.quality import RULES, Response, compression, faults, foreign, garbled, repeated
from outrider.record import Outcome, StopReason

HEALTHY = (
    "We are asked for the sum of the first ten odd numbers. The n-th odd number is $2n - 1$, so the sum is "
    r"\[ \sum_{n=1}^{10} (2n - 1) = 2 \cdot 55 - 10 = 100. \] Another way to see it: every square $k^2$ exceeds the "
    "one before it by the next odd number, hence the first ten of them add up to ten squared. With α = π/2 nothing "
    r"changes here, and therefore the answer, which both of the arguments agree on, must be \boxed{100}."
)


def broken(text, marker="", outcome=Outcome.CORRECT, stop=StopReason.STOP):
    """Names of the rules that one response breaks."""
    return {f.rule.name for f in faults([text], [outcome], [stop], marker) if f.faulty_R[0]}


def test_a_healthy_response_breaks_nothing_and_every_rule_can_verify_it():
    found = faults([HEALTHY], ["correct"], ["stop"], r"\boxed{")
    assert [f.rule for f in found] == list(RULES)
    assert [f.share for f in found] == [0.0] * len(RULES)
    assert all(f.decided == 1 for f in found)


@pytest.mark.parametrize(
    ("fault", "response"),
    [
        ("no answer", {"text": HEALTHY.replace("boxed", "fbox"), "marker": r"\boxed{"}),
        ("no answer", {"text": HEALTHY, "outcome": Outcome.UNPARSEABLE}),
        ("several answers", {"text": HEALTHY + r" Or \boxed{101}?", "marker": r"\boxed{"}),
        ("no end", {"text": HEALTHY, "stop": StopReason.LENGTH}),
        ("no end", {"text": HEALTHY, "stop": StopReason.CONTEXT}),
        ("garbled text", {"text": HEALTHY + "\ufffd" * 6}),
        ("garbled text", {"text": HEALTHY + "\x00\x1b\x07\ue000\ud800\u0378"}),
        ("mixed languages", {"text": HEALTHY + " 因此答案是一百"}),
        ("mixed languages", {"text": HEALTHY + " потому что"}),
        ("mixed languages", {"text": HEALTHY + " επειδή"}),
    ],
)
def test_each_fault_is_found_by_its_rule_alone(fault, response):
    assert broken(**response) == {fault}


def test_a_response_that_a_stop_text_ended_has_an_end():
    assert broken(HEALTHY, r"\boxed{", stop=StopReason.TEXT) == set()


def test_a_loop_is_repetition_and_compresses():
    loop = HEALTHY + " Wait, let me check that again." * 200
    assert broken(loop, r"\boxed{") == {"repeated words", "compressible text"}
    assert broken("ha" * 400) == {"compressible text"}  # one word without blanks repeats no words


def test_redundancy_and_compression_by_their_definitions():
    text = "a b c " * 40 + "d e"
    words = text.split()
    grams = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
    assert repeated(Response(text)) == pytest.approx(1 - len(set(grams)) / len(grams))
    assert repeated(Response(" ".join(map(str, range(52))))) == 0.0  # 50 trigrams, all different
    assert math.isnan(repeated(Response(" ".join(map(str, range(51))))))  # 49 say nothing yet
    noise = "".join(map(chr, np.random.default_rng(0).integers(33, 127, 3000)))
    assert 1 < compression(Response(noise)) < 1.3  # 94 signs need 6.55 of 8 bits
    assert compression(Response("x" * 3000)) > 100
    assert math.isnan(compression(Response("x" * 299)))


def test_what_cannot_be_verified_is_unknown_and_in_no_share():
    found = {
        f.rule.name: f for f in faults(["7", "8", "9"], [None, "timeout", "unparseable"], [None, "stop", "length"])
    }
    assert (found["no answer"].decided, found["no answer"].share) == (1, 1.0)
    assert (found["no end"].decided, found["no end"].share) == (2, 0.5)
    assert found["several answers"].decided == 0
    assert math.isnan(found["several answers"].share)
    assert found["mixed languages"].decided == 0  # no letters
    assert {f.decided for f in faults([""])} == {0}
    assert all(math.isnan(f.share) for f in faults([]))
    with pytest.raises(ValueError, match="zip"):
        faults(["a", "b"], ["correct"])


@given(st.text(max_size=30))
@settings(max_examples=60)
def test_shares_of_characters_are_shares_whatever_the_text(text):
    for number in (garbled(Response(text)), foreign(Response(text))):
        assert math.isnan(number) or 0 <= number <= 1
    assert math.isnan(garbled(Response(text))) == (not text)


@pytest.mark.parametrize("text", ["tab\tline\nend\r\n", "naïve café – “quotes” …", "答案是一百。", "👍🏽 नमस्ते", "מזל"])
def test_what_people_write_is_not_garbage(text):
    assert garbled(Response(text)) == 0


@pytest.mark.parametrize(
    "text",
    [
        r"so $\text{因此}$ and $$привет$$ hold",  # formulas are excluded, whatever they hold
        "so \\(п\\) and \\[\nо\n\\] hold",
        r"by \begin{align*} привет &= 1 \end{align*} it holds",
        "ωt + φ, 2π and Δx: only x counts here",
        "an angle θ; 𝑥 ∈ ℝ, ℏ, µ, ª, ｗｉｄｅ",
        "日本語とひらがなとカタカナー、人々",
        "1 + 1 = 2, x",
    ],
)
def test_signs_of_mathematics_and_one_writing_system_are_no_mixture(text):
    assert foreign(Response(text)) == 0


def test_the_share_counts_letters():
    assert foreign(Response("abc где")) == 0.5
    assert foreign(Response("abcd где, 12 %!")) == pytest.approx(3 / 7)
    assert foreign(Response("가나다 abcdef")) == pytest.approx(1 / 3)
    assert foreign(Response("$a$ $5 and 答案 cost $6")) > 0  # two sums of money are no formula


def test_rules_say_what_they_do():
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert len(rule.definition) > 20
        assert "unknown" in rule.definition
