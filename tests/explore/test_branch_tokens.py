"""Branches of every kind: the tokens of a path are exactly what the model saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.explore import Branch, Uniform
from outrider.explore.explorer import Explorer
from outrider.explore.stream import ProblemStream
from outrider.record import (
    Ids,
    Problem,
    Rollout,
    SampleRequest,
    correct,
    identity_seed,
    incorrect,
)
from outrider.testing.scripted import ScriptedEngine

EVERY = {"chunk": {"tokens": 1}}


class Seen:
    """A sampler that notes, for every rollout, the ids that it continued and those that it wrote."""

    def __init__(self, rate: float, longest: int) -> None:
        self.rate, self.longest = rate, longest
        self.contexts: dict[str, list[int]] = {}
        self.wrote: dict[str, Rollout] = {}
        self.requests: list[list[SampleRequest]] = []

    def __call__(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        self.requests.append(list(requests))
        return [self.write(request, k) for request in requests for k in range(request.n)]

    def write(self, request: SampleRequest, k: int) -> Rollout:
        seed = request.rollout_seed(k)
        prefix: Ids = np.zeros(0, np.int32) if request.prefix is None else request.prefix.ids
        own = [identity_seed(seed, t) % 30 for t in range(1 + seed % self.longest)]
        observed = [identity_seed(seed, "seen", t) % 4 > 0 for t in range(len(own))]
        made = Rollout(
            problem_id=request.problem.id,
            group_id=request.group_id,
            member=request.first_member + k,
            prompt_ids=request.prompt_ids,
            token_ids=np.array(own, np.int32),
            logprobs_T=-np.array(own, np.float32),
            entropies_T=np.array(own, np.float32),
            prefix_ids=prefix,
            trainable_T=np.array(observed) if seed % 3 == 0 else None,
            parent=request.prefix and request.prefix.parent,
            stage=request.stage,
            stream=request.stream,
        )
        success = identity_seed(seed, "success") / 2**63 < self.rate
        self.contexts[made.id] = [*map(int, request.prompt_ids), *map(int, prefix)]
        self.wrote[made.id] = made.verified(correct() if success else incorrect(), float(success))
        return self.wrote[made.id]


SELECTS: list[Any] = [
    "utility", {"utility": {"include_root": True}}, "uniform", "surprisal", "entropy", {"attention": {"distance": 3}},
    {"boundary": {"depth": 2, "width": 9}}, "root",
]  # fmt: skip
SEGMENTS: list[Any] = [EVERY, {"chunk": {"tokens": 3, "answer_marks": ["7"]}}, {"delimiter": {"marks": ["1"]}}, "turns"]


@settings(max_examples=120, deadline=None)
@given(
    select=st.sampled_from(SELECTS),
    segment=st.sampled_from(SEGMENTS),
    which=st.sampled_from(["failed", "all", "by_accuracy"]),
    numbers=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    rate=st.sampled_from([0.0, 0.4, 1.0]),
    longest=st.sampled_from([1, 4, 20]),
    seed=st.integers(0, 2**30),
)
def test_the_tokens_of_a_path_are_what_the_model_saw(select, segment, which, numbers, rate, longest, seed):
    pivots, branches, rounds = numbers
    stage = Branch(
        which=which, segment=segment, select=select, pivots=pivots, branches=branches, rounds=rounds, stream="x"
    )
    draw = Seen(rate, longest)
    explorer = Explorer([Uniform(n=3), stage], ProblemStream(lambda i: Problem(f"p{i}", "")), ScriptedEngine(), seed)
    for g in explorer.explore(1, 2, draw).groups:
        by_id = {r.id: r for r in g.rollouts}

        def path(r: Rollout, by_id: dict[str, Rollout] = by_id) -> list[int]:
            """Own tokens alone, from the root on."""
            before = [] if r.parent is None else path(by_id[r.parent])[: r.branch_at]
            return before + r.token_ids.tolist()

        for r in g.rollouts:
            assert draw.contexts[r.id] + r.token_ids.tolist() == [1, 2, *path(r)]
            if r.parent is not None:
                parent = by_id[r.parent]
                own = parent.branch_at < r.branch_at < parent.branch_at + len(parent.token_ids)
                assert own, "inside of what the parent sampled"
                at = r.branch_at - parent.branch_at
                assert parent.trainable_T is None or parent.trainable_T[at], "not what it observed"
                if "chunk" in segment and segment is not EVERY:
                    assert not any("7" in str(token) for token in r.prefix_ids)
    assert len(draw.requests) <= 1 + rounds
