"""The parts of ``language_models.py``, in the order in which they are run, and what the papers claim of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

RATES = (1e-6, 3e-6, 1e-5)
DEFAULT_RATE = 3e-6  # where none was tried


class Part(NamedTuple):
    """One training run.

    Attributes:
        name: of its folder, and in the results.
        config: values above those that all parts share.
        share: of the tokens that the others generate.
        after: the part whose model it goes on from, or ``sft``: solutions of the training set; empty: the model.
        tiny: values with a tiny model alone, whose responses are shorter than a recipe expects.
    """

    name: str
    recipe: str
    config: Mapping[str, Any] = {}
    share: float = 1.0
    seed: int = 0
    after: str = ""
    tiny: Mapping[str, Any] = {}


SIXTEEN = {"explore.0.n": 16}
FIRST = [
    Part("grpo-8", "grpo"),
    Part("deep-grpo", "deep-grpo"),
    Part("dars-hw", "dars-hw"),
    # as many rollouts a problem as the others; examples are found without a model that would have to be had
    Part("xrpo", "xrpo", {"explore.1.total": 512, "explore.1.seed.embed": "tfidf"}, tiny={"explore.1.total": 16}),
    Part("passk-training", "passk-training"),
]
PARTS = [
    *(Part(f"rate-{rate:g}", "grpo", {"learn.lr": rate}, share=0.25) for rate in RATES),
    *FIRST,
    *(part._replace(name=f"{part.name}-seed-1", seed=1) for part in FIRST),
    Part("grpo-16", "grpo", SIXTEEN),
    Part("treerl", "treerl"),
    Part("dars-hw-breadth", "dars-hw-breadth"),
    Part("depth-naive", "depth-naive"),
    Part("xrpo-no-icl", "xrpo-no-icl", {"explore.1.total": 512}, tiny={"explore.1.total": 16}),
    Part("prefix-replay", "prefix-replay"),
    Part("choose-slope3", "choose-slope3"),
    Part("rft", "rft"),
    Part("rft-rbf", "rft-rbf"),
    Part("rft-grpo", "grpo", after="rft"),
    Part("sft-grpo", "grpo", after="sft"),
]


class Claim(NamedTuple):
    """What a paper reports, and the two parts and the quantity that would show it here."""

    paper: str
    says: str
    part: str
    against: str
    quantity: str


CLAIMS = [
    Claim("DEEP-GRPO, Table 1", "accuracy 67.7 %, GRPO (n = 8) 64.1 %", "deep-grpo", "grpo-8", "greedy"),
    Claim("DEEP-GRPO, Table 1", "GRPO with n = 16 65.9 %, with n = 8 64.1 %", "grpo-16", "grpo-8", "greedy"),
    Claim("DEEP-GRPO, Table 1", "TreeRL 65.5 %, GRPO (n = 8) 64.1 %", "treerl", "grpo-8", "greedy"),
    Claim("DEEP-GRPO, Figure 4", "entropy higher than GRPO's; here of the last step", "deep-grpo", "grpo-8", "entropy"),
    Claim("DARS, Table 1", "1.5 B: HW has pass@128 82.1, the baseline 79.6", "dars-hw", "grpo-8", "pass@64"),
    Claim("DARS, Table 1", "1.5 B: HW with breadth has pass@1 52.4, HW 50.0", "dars-hw-breadth", "dars-hw", "pass@1"),
    Claim("DARS, Table 2", "HW takes 23.9 rollouts a prompt, naive depth 32", "dars-hw", "depth-naive", "rollouts"),
    Claim("XRPO, Table 2", "Llama-3.2-3B: above GRPO", "xrpo", "grpo-8", "pass@1"),
    Claim("XRPO, Table 11", "examples in the context gain accuracy", "xrpo", "xrpo-no-icl", "pass@1"),
    Claim("pass@k training", "pass@k above GRPO's", "passk-training", "grpo-8", "pass@64"),
    Claim("STILL, Table 3", "AIME24: pass@k 68.81 by branching, 58.76 by rules alone", "rft-rbf", "rft", "pass@64"),
]


def chosen_rate(results: Mapping[str, Mapping[str, Any]]) -> float:
    """The learning rate of the probes with the highest pass@1 after them; the middle one until all were run."""
    probes = {rate: results[f"rate-{rate:g}"]["pass@1"] for rate in RATES if f"rate-{rate:g}" in results}
    if len(probes) < len(RATES):
        return DEFAULT_RATE
    return max(RATES, key=lambda rate: probes[rate]["before"] + probes[rate]["change"])
