"""Verifies short free-text answers by exact match or F1 after SQuAD's normalisation. Gold answers may have aliases.

Sources: exact match and F1 are from SQuAD (arXiv 1606.05250). The rule that the F1 of "yes" and "no" is 0 or 1 is from
HotpotQA (arXiv 1809.09600).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from outrider.record import Outcome, Problem, Verdict, correct, incorrect, unparseable
from outrider.verify.answers import shown
from outrider.verify.verifier import Verifier, text_of

WHOLE = {"yes", "no", "noanswer"}  # compared as a whole, so that "yes" is not half right for "yes, no"

_TAG = re.compile("</?answer>")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class QuestionAnswering(Verifier):
    """Accepts an answer if it equals the gold answer or an alias after :func:`normalise`; the score is 0 or 1.

    With the option ``f1``, the score is the largest F1 over the gold answer and its aliases. The answer is correct if
    the score is at least the value of this option. The gold answer's field may contain a list of accepted answers. The
    time is linear in the length of the response.

    ``take`` selects the answer in the response. ``tag``: the text in the last ``<answer>…</answer>`` without another
    answer tag inside, even if the response was truncated later. ``last_line``: the last line that is not blank.
    ``whole``: the whole response. With ``last_line`` and ``whole``, a truncated response has no answer.
    """

    take: Literal["tag", "last_line", "whole"] = Field(
        "tag",
        description=(
            "part of the response that is the answer: the content of the last <answer>…</answer> (tag), the last line "
            "(last_line), or the whole response (whole)"
        ),
    )
    f1: float | None = Field(
        None,
        gt=0,
        le=1,
        description=(
            "minimum F1 score (word overlap with a gold answer) at which an answer is correct; null: require an exact "
            "match"
        ),
    )
    aliases: str | None = Field(
        None, min_length=1, description="table field with a list of alternative gold answers; null: no alternatives"
    )

    def reference(self, fields: Mapping[str, Any], answer: str) -> list[str]:
        """Return all accepted answers, without line breaks. The gold answer of the row comes first."""
        texts = texts_of(fields, answer)
        if (
            self.aliases is not None and fields.get(self.aliases, ()) is not None
        ):  # null means that there are no aliases; a missing field is a mistake
            texts += texts_of(fields, self.aliases)
        answers = [text for text in dict.fromkeys(" ".join(text.split()) for text in texts) if text]
        if not answers:
            raise ValueError(f"the field {answer!r} holds no answer")
        return answers

    def verify_answer(self, problem: Problem, text: str, finished: bool) -> Verdict:
        answer = extract(text, self.take, finished)
        if not answer:
            return unparseable("no answer" if finished else "truncated before an answer")
        short = shown(answer)
        if self.f1 is None:
            given = normalise(answer)
            return correct(short) if any(given == normalise(right) for right in problem.answer) else incorrect(short)
        score = max(f1(answer, right) for right in problem.answer)
        return Verdict(Outcome.CORRECT if score >= self.f1 else Outcome.INCORRECT, score, answer=short)

    def right(self, problem: Problem) -> str:
        answer: str = problem.answer[0]
        return f"<answer>{answer}</answer>" if self.take == "tag" else answer


def normalise(answer: str) -> str:
    """Convert to lower case, remove ASCII punctuation, articles and extra white space, and compose Unicode (NFC).

    A step is skipped if it would leave an empty text, so the blood group "A" and the band "The The" can be answers.

    >>> normalise(" The  Beatles' "), normalise("A"), normalise("!!!")
    ('beatles', 'a', '!!!')
    """
    answer = unicodedata.normalize("NFC", answer).lower()
    for strip in (lambda text: text.translate(_PUNCTUATION), lambda text: _ARTICLES.sub(" ", text)):
        answer = strip(answer) if strip(answer).strip() else answer
    return " ".join(answer.split())


def f1(answer: str, right: str) -> float:
    r"""Return F1, the harmonic mean of precision and recall, over the words of an answer. Repeated words count several
    times.

    .. math:: F_1 = 2 |A \cap R| / (|A| + |R|)

    Here :math:`A` is the multiset of words in the answer, and :math:`R` the multiset of words in the gold answer, after
    :func:`normalise`. If either text is "yes", "no" or "noanswer", F1 is 1 if both texts are equal, and 0 otherwise.
    The F1 of an empty answer is 0.

    >>> f1("the Eiffel Tower in Paris", "Eiffel Tower"), f1("yes", "yes, no"), f1("", "x")
    (0.6666666666666666, 0.0, 0.0)
    """
    given, wanted = normalise(answer), normalise(right)
    if given in WHOLE or wanted in WHOLE:
        return float(given == wanted)
    a, b = Counter(given.split()), Counter(wanted.split())
    return 2 * (a & b).total() / ((a.total() + b.total()) or 1)


def extract(text: str, take: str, finished: bool) -> str:
    """Return the answer in a response, without white space around it; empty if there is no answer.

    >>> extract("<answer>x</answer> or <answer> y </answer>", "tag", finished=False)
    'y'
    >>> extract("<answer>no: <answer>x</answer></answer> <answer>", "tag", finished=True)
    'x'
    >>> extract("So:\\nParis\\n", "last_line", finished=True), extract("So:\\nPar", "last_line", finished=False)
    ('Paris', '')
    """
    if take == "tag":
        return _last_tagged(text)
    answer = text.strip() if finished else ""
    return answer.rpartition("\n")[2].strip() if take == "last_line" else answer


def _last_tagged(text: str) -> str:
    opened, answer = None, ""
    for tag in _TAG.finditer(text):
        if tag[0] == "<answer>":
            opened = tag.end()
        elif opened is not None:
            opened, answer = None, text[opened : tag.start()].strip()
    return answer


def texts_of(fields: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of a field that contains a text, a number, or a list of texts and numbers.

    Raises:
        ValueError: :func:`outrider.verify.verifier.text_of` rejects the field or an entry of its list.
    """
    value = fields.get(name)
    return [text_of({name: one}, name) for one in value] if isinstance(value, list) else [text_of(fields, name)]
