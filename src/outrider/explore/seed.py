"""In-context seeding (XRPO): solved problems as examples in the prompt of an unsolved problem."""

from __future__ import annotations

import string
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from outrider.components import ComponentOf
from outrider.explore.corpus import Corpus, Exemplar, question_of, read_corpus
from outrider.explore.embed import EMBEDDERS, Embedder, Tfidf
from outrider.explore.view import View
from outrider.options import Options
from outrider.record import Context, Group, Ids, Problem, SampleRequest
from outrider.record.normalised import normalised


class ExemplarTemplate(Options):
    r"""Template that joins examples and a question into one prompt; write ``{{`` and ``}}`` for literal braces.

    The default template is XRPO's (appendix C). The filled template replaces the question within the problem's prompt,
    so a chat format around the question stays; see :func:`outrider.explore.corpus.question_of`.

    >>> plain = ExemplarTemplate(whole="{examples}{question}", example="{problem}{solution}\n")
    >>> plain.write("3 4>7:", [Exemplar("5 6>11:", "5+6=11")])
    '5 6>11:5+6=11\n3 4>7:'
    """

    whole: str = Field(
        "<task>\n You are given several worked examples,\n each with a <problem> and a <solution>.\n"
        " Extract a general strategy, then think\n through the new problem, and finally\n"
        " provide the detailed solution.\n</task>\n\n<examples>\n{examples}</examples>\n\n"
        "<new_problem>{question}</new_problem>",
        description=(
            "template of the whole prompt; {examples} stands for the formatted in-context examples, and {question} for "
            "the problem's question"
        ),
    )
    example: str = Field(
        ' <example id="{number}">\n  <problem>{problem}</problem>\n  <solution>{solution}</solution>\n </example>\n',
        description=(
            "template of one in-context example; {problem} stands for the example's question, {solution} for its "
            "solution, and {number} for its position, counted from 1"
        ),
    )

    @field_validator("whole", "example")
    @classmethod
    def _names_its_parts(cls, text: str, info: ValidationInfo) -> str:
        needed = {"examples", "question"} if info.field_name == "whole" else {"problem", "solution"}
        try:
            named = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        except ValueError as error:
            raise ValueError(f"literal braces must be written as {{{{ and }}}} ({error})") from error
        allowed = needed | ({"number"} if info.field_name == "example" else set())
        if not needed <= named <= allowed:
            raise ValueError(
                f"must contain {_listed(needed)}, may contain {_listed(allowed)}, but contains "
                f"{_listed(named) or 'none'}"
            )
        return text

    def write(self, question: str, examples: Sequence[Exemplar], longest: int | None = None) -> str:
        """Return the prompt text; each solution is truncated to its first ``longest`` characters."""
        written = [
            self.example.format(number=number, problem=entry.question, solution=entry.solution[:longest])
            for number, entry in enumerate(examples, 1)
        ]
        return self.whole.format(examples="".join(written), question=question)


class _Prompt(NamedTuple):
    """A prompt with examples; ``cut`` is true if solutions were truncated. Without exemplars, the plain prompt is
    used."""

    ids: Ids
    exemplars: tuple[str, ...] = ()
    cut: bool = False


class Seed(Options):
    """Adds the ``k`` most similar solved problems as examples to the prompt of a problem that has no success yet.

    The corpus holds the problems that the run itself has solved. After each step, every problem's last success replaces
    the problem's entry; successes sampled with in-context examples are also stored, and are marked as such. Success is
    determined by the verifier's verdict. ``<think>…</think>`` is removed from solutions. Solved problems are ranked by
    cosine similarity of the questions, highest first; ties go to the problem stored last. A problem is never its own
    example, not even under another id, and there is no minimum similarity. :class:`ExemplarTemplate` formats the
    prompt. If the prompt has more than ``max_tokens`` tokens, or leaves no room in the model's context for the longest
    response, all solutions are truncated to the same length. If even one character per solution is too long, the last
    example is dropped. The question is never truncated.

    Degenerate cases: if there are fewer than ``k`` solved problems, the prompt has fewer examples. If no example fits,
    the plain prompt is used (metric ``unseeded``). When the corpus is full, its oldest entry is removed (metric
    ``evicted``).

    Difference: XRPO ranks the whole training set once, and takes examples only from a problem's 64 nearest problems. An
    endless stream of problems cannot be ranked, so here the nearest solved problems are used, however distant they are.

    Our choices where XRPO is ambiguous: the corpus starts empty, or with solved problems from a file. (XRPO starts with
    "baseline-correct solutions".) The solutions in examples do not include the reasoning, as the lengths in XRPO's
    Table 9 suggest. By default (``trained: as_generated``) the learner uses the prompt with examples, from which the
    rollout was sampled. The importance ratio then starts at 1, but the policy learns to respond to prompts with
    examples. With ``original`` the learner uses the plain prompt (without examples), and the sampling log-probabilities
    serve as old log-probabilities. The ratio then starts at ``pi(y | plain) / pi(y | seeded)``. The surrogate's clip
    bounds this ratio for positive advantages; ``objective.correction: truncate`` bounds this ratio for all advantages.
    With these bounds, the gradient estimate for the plain prompt is biased. An unbiased estimate would need untruncated
    importance weights of whole responses. With ``excluded`` the rollout counts only in the baseline. Evaluation prompts
    contain no examples.

    Source: XRPO (arXiv 2510.06672), section 3.2 and appendix C.

    >>> Seed().k
    2
    """

    k: int = Field(2, ge=1, le=64, description="number of solved problems to add as in-context examples to a prompt")
    embed: Annotated[Embedder, ComponentOf(EMBEDDERS, "embedder", Embedder)] = Field(
        default_factory=Tfidf,
        description=(
            "embedder, which measures how similar two questions are; the solved problems with the most similar "
            "questions become the examples"
        ),
    )
    template: ExemplarTemplate = Field(
        default_factory=ExemplarTemplate,
        description="templates that combine in-context examples and the question into one prompt",
    )
    max_tokens: int = Field(
        4096,
        ge=1,
        description=(
            "maximum length in tokens of a prompt with in-context examples; in longer prompts the examples' solutions "
            "are truncated"
        ),
    )
    trained: Literal["as_generated", "original", "excluded"] = Field(
        "as_generated",
        description=(
            "treatment of rollouts that were sampled with examples: train on them with the same prompt "
            "(as_generated), train on them with the plain prompt (original), or do not train on them (excluded)"
        ),
    )
    capacity: int = Field(
        10_000,
        ge=1,
        description=(
            "maximum number of solved problems to store as possible examples; beyond this number, the oldest is removed"
        ),
    )
    corpus: str | None = Field(
        None,
        description=(
            "JSON Lines file of solved problems (fields id, problem, solution) that serve as examples from the start; "
            "null: only problems that the run itself solves"
        ),
    )

    _corpus: Corpus = PrivateAttr()
    _prompts: dict[str, _Prompt] = PrivateAttr(default_factory=dict)
    _counts: Counter[str] = PrivateAttr(default_factory=Counter)

    @model_validator(mode="after")
    def _begin(self) -> Seed:
        self._corpus = Corpus(self.capacity)
        if self.corpus is not None:
            entries = read_corpus(self.corpus)
            if len(entries) > self.capacity:
                raise ValueError(
                    f"{self.corpus} holds {len(entries)} solved problems, above capacity, which is {self.capacity}"
                )
            for problem_id, entry in entries.items():
                self._corpus.store(problem_id, entry)
        return self

    def seeded(self, requests: Sequence[SampleRequest], view: View) -> dict[str, SampleRequest]:
        """Return the requests by problem id, with examples added to their prompts. Requests without a usable example
        are unchanged.
        """
        new = [r.problem for r in requests if r.problem.id not in self._prompts]
        if new and self._corpus.entries:
            for problem, nearest in zip(new, self._nearest(new), strict=True):
                self._prompts[problem.id] = self._write(problem, nearest, view)
        seeded = {}
        for request in requests:
            prompt = self._prompts.get(request.problem.id)
            if prompt is None or not prompt.exemplars:
                self._counts["unseeded"] += request.n
                seeded[request.problem.id] = request
                continue
            self._counts["seeded"] += request.n
            self._counts["cut"] += request.n * prompt.cut
            self._counts["fewer"] += request.n * (len(prompt.exemplars) < self.k)
            context = Context("seeded", prompt.exemplars, self.trained)
            seeded[request.problem.id] = replace(request, prompt_ids=prompt.ids, context=context)
        return seeded

    def _nearest(self, problems: Sequence[Problem]) -> list[list[str]]:
        """Return the ids of the ``k`` corpus entries nearest to each problem, best first."""
        ids = list(self._corpus.entries)[::-1]  # latest first, so that a stable sort prefers the latest in ties
        texts = [entry.question for entry in self._corpus.entries.values()][::-1]
        own = [normalised(text) for text in texts]
        cosines = self.embed.cosines([question_of(p) for p in problems], texts)
        found = []
        for problem, row in zip(problems, cosines, strict=True):
            question = normalised(question_of(problem))
            others = (ids[i] for i in np.argsort(-row, kind="stable") if ids[i] != problem.id and own[i] != question)
            found.append(list(islice(others, self.k)))
        return found

    def _write(self, problem: Problem, nearest: Sequence[str], view: View) -> _Prompt:
        """Return the prompt with as many nearest examples as fit; solutions are truncated no more than needed."""
        question, room = question_of(problem), min(self.max_tokens, view.prompt_limit)
        for count in range(len(nearest), 0, -1):
            examples = [self._corpus.entries[key] for key in nearest[:count]]
            full = longest = max(len(entry.solution) for entry in examples)
            while longest:
                text = self.template.write(question, examples, longest)
                ids = view.engine.encode(replace(problem, prompt=problem.prompt.replace(question, text, 1)))
                if len(ids) <= room:
                    return _Prompt(ids, tuple(nearest[:count]), longest < full)
                excess = (len(ids) - room) * len(text) / len(ids)  # approximate, in characters
                longest = _shorter([len(entry.solution) for entry in examples], longest, excess)
        return _Prompt(np.zeros(0, np.int32))

    def observe(self, groups: Sequence[Group]) -> dict[str, float]:
        """Store the solved problems of a step and return the metrics.

        The metrics count rollouts with examples, rollouts without an available example, rollouts with truncated
        solutions, and rollouts with fewer than ``k`` examples. Further metrics count problems solved only with
        examples, all entries of the corpus, removed entries, and entries from rollouts with examples.
        """
        self._prompts.clear()
        evicted = self._corpus.learn(groups)
        helped = [any(r.success and r.context.kind == "seeded" for r in g.rollouts) for g in groups]
        alone = [any(r.success and r.context.kind == "plain" for r in g.rollouts) for g in groups]
        rescued = sum(with_help and not without for with_help, without in zip(helped, alone, strict=True))
        counts = {name: float(self._counts[name]) for name in ("seeded", "unseeded", "cut", "fewer")}
        self._counts.clear()
        entries = self._corpus.entries.values()
        return counts | {
            "rescued": float(rescued),
            "evicted": float(evicted),
            "corpus": float(len(entries)),
            "corpus_seeded": float(sum(entry.seeded for entry in entries)),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"corpus": self._corpus.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._prompts.clear()
        self._corpus.load_state_dict(state["corpus"])


def _shorter(lengths: Sequence[int], longest: int, excess: float) -> int:
    """Return a new maximum length for texts of these ``lengths``, which are already truncated to ``longest``.

    This is the largest limit below ``longest`` that removes at least ``excess`` more characters in total. If no limit
    above 0 removes so many characters, the limit is 1, since ``excess`` is only an estimate. If ``longest`` is already
    1, the limit is 0.

    >>> _shorter([10, 4], 10, 3.0), _shorter([10, 4], 10, 8.0), _shorter([5], 3, 0.0), _shorter([5], 3, 9.0)
    (7, 3, 2, 1)
    """

    def total(limit: int) -> int:
        return sum(min(n, limit) for n in lengths)

    return max(min(1, longest - 1), bisect_right(range(longest), total(longest) - excess, key=total) - 1)


def _listed(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
