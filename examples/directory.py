"""An environment of one's own, for `agents_environment`: a directory that answers one lookup a turn."""

from __future__ import annotations

from outrider import Environment, Problem, Reply
from outrider.record import correct, incorrect


class Directory(Environment):
    """The policy asks `K.b;` and reads to whom K's relation b leads, or `-`; it answers `=M;`."""

    def begin(self, problem: Problem, seed: int) -> str:
        self.gold, *facts = problem.answer.split()
        self.leads = dict(fact.split(":") for fact in facts)
        return ""  # what the policy reads before its first turn, beside the prompt

    def step(self, text: str) -> Reply:
        asked = text.removesuffix(";")
        if asked.startswith("="):
            verdict = correct(asked[1:]) if asked[1:] == self.gold else incorrect(asked[1:])
            return Reply(done=True, verdict=verdict)
        if len(asked) != 3 or asked[1] != ".":
            return Reply("?;", error=True)  # counted: the turn asked for what cannot be had
        return Reply(self.leads.get(asked, "-") + ";")
