"""Can a base use solved problems in its prompt?

Claim (XRPO, arXiv 2510.06672, Table 11): with the nearest solved problems in the prompt more is solved than with random
ones, and with random ones more than with none.

Ours: the first 300 held-out word problems of two to four steps with which all prompts fit into the context, 16 samples
each at temperature 1, with one and with two solved problems in front, of 20,000: random ones, or the nearest by TF-IDF
of words, as the recipe ``xrpo`` takes them. *Alike* are of the task's own making: the same steps in the same order, in
the same manner, with other numbers, names and words. Intervals draw problems; changes are paired by problem.

Command: ``python benchmarks/studies/examples.py [--model MODEL] [--runs DIR]`` (minutes of two cores where DIR holds
nothing). Seed 0.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _models import arguments_with_runs, command
from _study import BLACK, BLUE, GREEN, ORANGE, keep, panels
from tokenizers import Tokenizer

from outrider.arrays import Floats
from outrider.config import load_recipe
from outrider.explore.embed import Tfidf
from outrider.measure.bootstrap import bootstrap_difference, bootstrap_mean
from outrider.measure.evaluation import Evaluation
from outrider.model.places import model_folder
from outrider.record import identity_seed
from outrider.tasks.dice import Dice
from outrider.tasks.stories import Ranges, Story, draw_story, tell
from outrider.tasks.word_problems import WordProblems, asked, is_heldout, solved

_TASK = load_recipe("grpo", setting="prose").task
assert isinstance(_TASK, WordProblems)
STEPS, DRAWN, PROBLEMS, SAMPLES, KNOWN, EXAMPLES = (2, 3, 4), 600, 300, 16, 20_000, (1, 2)
TOKENS = 180  # of a response: the longest solution of four steps takes 168
COLOURS = {"none": BLACK, "random": ORANGE, "nearest": BLUE, "alike": GREEN}
# seed 2: neither the stream of the base nor that of training
TASK = _TASK.model_copy(update={"seed": 2, "steps": STEPS})
RANGES = Ranges(TASK.highest, TASK.cap)


def asked_stories() -> list[Story]:
    """Held-out stories, numbers of steps in turn."""
    stories = []
    for k in range(DRAWN):
        draws = (Dice(identity_seed("study of examples", k, attempt)) for attempt in itertools.count())
        told = (draw_story(draw, STEPS[k % len(STEPS)], TASK.aside, RANGES) for draw in draws)
        stories.append(next(story for story in told if is_heldout(story)))
    return stories


def alike(story: Story, k: int) -> list[str]:
    """Solved problems of the story's shape, told in its manner; none of them held out."""
    draws = (Dice(identity_seed("alike", story.question, attempt)) for attempt in itertools.count())
    told = (tell(draw, story.shape, TASK.aside, RANGES, story.manner) for draw in draws)
    fit = (solved(one) for one in told if one and not is_heldout(one))
    return list(itertools.islice(fit, k))


def examples(stories: Sequence[Story]) -> dict[str, list[list[str]]]:
    """For each way the examples of each story, the best of them last."""
    known = [TASK.train(i) for i in range(KNOWN)]
    texts = [f"{each.prompt}{each.metadata['solution']}\n\n" for each in known]
    cosines = Tfidf().cosines([asked(story) for story in stories], [each.prompt for each in known])
    near = np.argsort(-cosines, axis=1, kind="stable")[:, : max(EXAMPLES)]
    drawn = np.random.default_rng(0).integers(KNOWN, size=near.shape)
    return {
        "random": [[texts[j] for j in row] for row in drawn],
        "nearest": [[texts[j] for j in row[::-1]] for row in near],
        "alike": [alike(story, max(EXAMPLES)) for story in stories],
    }


def fitting(model: str, stories: Sequence[Story], ways: Mapping[str, Sequence[Sequence[str]]]) -> list[int]:
    """The first stories whose longest prompt leaves room for a response."""
    folder = Path(model_folder(model))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    room = json.loads((folder / "config.json").read_bytes())["max_position_embeddings"] - TOKENS
    fit = [
        i
        for i, story in enumerate(stories)
        if all(len(tokenizer.encode("".join(of[i]) + asked(story)).ids) <= room for of in ways.values())
    ]
    return fit[:PROBLEMS]


def pass_rates(runs: Path, name: str, model: str, stories: Sequence[Story], shown: Sequence[str]) -> Floats:
    """Of each story, with a text in front of its question; a finished evaluation is read."""
    rows = [
        {"id": str(i), "problem": text + asked(story), "answer": str(story.answer)}
        for i, (story, text) in enumerate(zip(stories, shown, strict=True))
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    # whatever changes is another evaluation
    asked_of = hashlib.blake2b(f"{model} {SAMPLES} {TOKENS} {lines}".encode(), digest_size=4).hexdigest()
    out = runs / f"examples-{name}-{asked_of}"
    if not (out / "table.md").exists():
        table = out.with_suffix(".jsonl")
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(lines)
        task = {"table": {"heldout_data": str(table), "id": "id", "prompt": "{problem}", "verifier": "number"}}
        words = ["--n", SAMPLES, "--problems", len(stories), f"sample.max_tokens={TOKENS}", "evaluate.greedy=false"]
        command("evaluate", model, "--task", json.dumps(task), *words, "--out", out)
    [file] = sorted((out / "evaluations").glob("*.json"))
    tallies = Evaluation.from_json(json.loads(file.read_bytes())).tallies
    rates = {tally.problem: tally.successes / tally.scorable for tally in tallies}
    return np.array([rates[str(i)] for i in range(len(stories))])


def main() -> None:
    parser = arguments_with_runs(__doc__)
    parser.add_argument("--model", default="base:prose", help="one that was taught word problems with examples")
    said = parser.parse_args()
    drawn = asked_stories()
    every = examples(drawn)
    kept = fitting(said.model, drawn, every)
    stories, ways = [drawn[i] for i in kept], {name: [of[i] for i in kept] for name, of in every.items()}
    found = {"none": pass_rates(said.runs, "none", said.model, stories, [""] * len(stories))}
    numbers: dict[str, Any] = {"left_out_of_drawn": [kept[-1] + 1 - len(kept), kept[-1] + 1]}
    numbers |= {"none": {"pass@1": bootstrap_mean(found["none"])._asdict()}}
    figure, [axes] = panels(["pass@1 with solved problems in the prompt"], (6, 4))
    axes.axhline(found["none"].mean(), color=COLOURS["none"], linewidth=1, label="none")
    for offset, (name, of) in enumerate(ways.items()):
        for k in EXAMPLES:
            # the best last, next to the question
            rates = pass_rates(said.runs, f"{name}-{k}", said.model, stories, ["".join(each[-k:]) for each in of])
            numbers[f"{name}, {k}"] = {
                "pass@1": bootstrap_mean(rates)._asdict(),
                "less_none": bootstrap_difference(found["none"], rates)._asdict(),
            }
            found[f"{name}, {k}"] = rates
            mean = numbers[f"{name}, {k}"]["pass@1"]
            at = k + 0.12 * (offset - 1)
            label = name if k == EXAMPLES[0] else None
            error = [[mean["value"] - mean["low"]], [mean["high"] - mean["value"]]]
            axes.errorbar([at], [mean["value"]], error, fmt="o", color=COLOURS[name], capsize=3, label=label)
    for k in EXAMPLES:
        pairs = (("nearest", "random"), ("alike", "nearest"))
        for one, other in pairs:
            change = bootstrap_difference(found[f"{other}, {k}"], found[f"{one}, {k}"])
            numbers[f"{one}, {k}"][f"less_{other}"] = change._asdict()
    axes.set(xticks=EXAMPLES, xlabel="solved problems", xlim=(0.5, 2.5), ylim=(0, None))
    axes.legend(frameon=False)
    keep("examples", numbers, figure, said.out, seeds=[0])


if __name__ == "__main__":
    main()
