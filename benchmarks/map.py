"""Which method when: every recipe in a setting, screened, then those that matter at five seeds.

The rule, written down on 2026-11-23 before the first run (and amended that evening, still before it: which held-out
problems, and the last point):

1. *Screen*: every recipe with learning rates of 1e-4 and 2e-4 and with 1 and 4 updates a step, all with all, each once
   with 1,200,000 generated tokens, on held-out problems 300 to 449. On these ``choose`` was designed, so the screen
   of the frontier flatters it (docs/log.md). A recipe's settings are the bench's choice by the mean of pass@1 and
   the largest pass@k: the first within one standard error of the largest.
   On ``prose`` and ``countdown``, the last two, nobody is searched for any more: those asked after are screened, of
   our designs ``choose-slope3``, which ``frontier`` recommends, and ``choose-annealed`` (8), and of the others
   ``prefix-replay`` and ``passk-training``, the two that were ahead of GRPO on ``sparse``. All nine are compared. The
   largest k of ``prose`` is 16, since with 64 tries luck solves a quarter of its problems. (Written on 2026-11-25. It
   replaces other words on both. ``countdown`` had not run; of ``prose``, then with problems of two to eight steps, 18
   runs of the screen were finished, none with 0.15 in pass@1 where the base has 0.13. The setting took shorter problems
   by the curve of GRPO alone; docs/log.md.)
   On ``sparse`` the pool is 512 problems: a screen draws 1,700, and its first runs, put aside on 2026-11-25, had shown
   every recipe that remembers problems as it would be without a memory. There all problems are of one level and
   seldom solved, so within 1,200,000 tokens ``choose`` takes whatever comes, as was seen at 1e-4 with the pool of
   512: ``choose``, ``choose-prefix``, ``choose-pass3`` and ``choose-pass4`` are left out, which then are ``grpo``,
   ``prefixrl``, ``choose-slope3`` and ``passk-training``. ``success-replay`` and ``prefix-replay`` join, after a look
   with the screen's seed and problems (and one seed more of the first; docs/log.md), so the screen flatters them; the
   comparison uses neither.
2. *Choose*: GRPO, the three papers whose headlines are asked after (``dars-hw``, ``deep-grpo``, ``xrpo``; and
   ``dars-hw-breadth``, added on 2026-11-24 during the first comparison, since DARS's headline is its), two of the
   designs of our planner, and two of the others: those with the largest mean of pass@1 and pass@64 over all four
   of their runs, which chance moves half as much as a single run; the best of four it moves upwards. ``choose-pass2``
   joined on 2026-11-24, when the screen of the frontier, still running, had shown ``choose`` ahead of GRPO in pass@1
   alone and ``choose-pass4`` in pass@64 alone. ``choose-pass3`` was to join from the next screen on, since four
   seeds of the frontier, on its first 300 problems, had ``choose-pass2`` ahead at one end and ``choose-pass4`` at the
   other (written that evening, before its first run); on the frontier it is compared later, by 6, and on ``sparse`` it
   was ``choose-slope3``, by 1.
3. *Compare*: these with their settings, five seeds of 3,600,000 tokens, four evaluations along the way, on the first
   300 held-out problems, by which neither ``choose`` nor a setting was chosen.
4. *Confirm*: the last policies, once, on held-out problems 600 to 899, which nothing has been measured on before.
   Claims of one recipe over another are made there.
5. *Recommend*: for a setting the recipe that is ahead of GRPO in pass@1 or in pass@k with the largest k and behind in
   neither, by intervals on the untouched problems; of several the one with the largest sum of both changes, nobody
   where there is none (written on 2026-11-24, when one seed of the frontier was known). Settings name it
   (``recommended``); one that lies beside the studies is shipped then.
6. *Later*: designs of our planner that came after a setting's comparison are compared with GRPO in a bench of their
   own, as in 3, and measured on held-out problems 900 to 1199, which nothing has been measured on before. One that is
   ahead there at both ends, by intervals, is recommended before all others. On the frontier these are
   ``choose-slope3`` and, to tell what of it is the credit's, ``choose-pass3``, both with 2e-4 and one update a step:
   chosen on 2026-11-25 after two seeds of 1,800,000 tokens on the first 300 problems, in which ``choose-slope3`` had
   0.03 more than GRPO at both ends; of k = 2, 3 and 4 the best, and the only rate that was tried. Two of its five
   seeds are those, so the log tells the other three alone, too.
   Elsewhere ``choose-slope3`` is screened with the others.
   On ``sparse`` these are ``choose-replay2`` and ``choose-replay4``, with credit for the best of two and of four and
   replays of what nothing solves: chosen on 2026-11-25 after one seed (0) of 3,600,000 tokens on the first 300
   problems, in which they had 0.105 and 0.787, and 0.099 and 0.833, where GRPO had 0.086 and 0.660; of k = 2, 3 and 4,
   and of k = 2 and 3 with prefixes in a stream of their own, all at 1e-4 with four updates; at 2e-4 k = 2 had no more
   pass@1. Their bench has seeds that nobody has looked at (5 to 9), and ``prefix-replay`` beside them, which is
   recommended there (written that evening, before its first run).
7. *Again*: ``choose-slope3`` was ahead there by 0.027 ±.015 in pass@1 and by 0.031 ±.032 in pass@64, so 6 does not
   recommend it. It and GRPO are run once more as in 6, but with ten seeds that nobody has looked at (5 to 14), on 600
   problems that nothing has been measured on before (1200 to 1799), and measured along the way only at the end. That
   bench alone decides, as in 6 and once (written on 2026-11-25, before its first run).
8. *Last*: on ``frontier`` and ``sparse`` ``choose-annealed`` is compared as a later design, five seeds that nobody has
   looked at on problems that nobody has either (1800 to 2099 and 1200 to 1499), beside GRPO and, on ``frontier``,
   ``choose-slope3``; at their rates there. So one design is measured in all four settings. It is ``choose-slope3`` with
   replays and with a k that falls along the run: breadth first, then sureness; chosen after looks at seeds 0 to 2 on
   the first 300 problems (docs/log.md). ``choose-replay3``, with k = 3 all along, had its place here for an hour; two
   seeds of its bench on ``sparse`` had run, and nobody had looked at them. Who is ahead there at both ends, of two the
   one with the larger sum, is recommended; where nobody is, all stays as it was, since ``choose-slope3`` was decided on
   by 7 (written on 2026-11-25, before its first run there).
9. *Control*: GRPO's values are those of a screen of single runs, the first within one standard error of the best; its
   best runs there had four updates. Whom 6 to 8 recommend has others: on ``frontier`` twice the rate, on ``sparse``
   four updates. So each is compared once more with GRPO at *its* rate and updates, five seeds and problems that nobody
   has looked at (20 to 24 and 2100 to 2399; 15 to 19 and 1500 to 1799). Who is ahead at no end there or behind at one,
   by intervals, is recommended no more, but the next by 5 to 8 that is not refused so. The same on ``countdown``
   and ``prose``, where 5 recommends somebody with other values than GRPO's. (Written on 2026-11-26, before its first
   run, after a review had said that rate and updates alone may be what is ahead.)

All recipes draw from a pool of 2,048 problems, on ``sparse`` and ``prose`` of 512, since some need problems that
return. The budget of ``prose``, where a token is three times as dear, is 2,400,000 tokens.

Commands: ``python benchmarks/map.py SETTING [--runs DIR]``, where what is finished is taken as it is, here or in what
is committed; ``python benchmarks/map.py pack``, which puts the finished runs of benches that are not done beside the
results, for another machine to go on with; and ``python benchmarks/map.py draw``, which makes page and picture again
from what is committed. On two cores the screen of a setting is one to two hours, the comparison one to three.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml
from _finished import pack, unpack
from _map_best import best_figure
from _map_figure import figure
from _map_page import page
from _map_read import Results
from _map_rule import recommendations
from _map_setting import setting_page

from outrider.config import load_recipe

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "map"
FINISHED = "finished.tar.xz"
KEPT = ("bench.yaml", "frontier.png", "numbers.csv", "page.md", "table.md")
SETTINGS = ("countdown", "frontier", "sparse", "prose")


class Part(NamedTuple):
    """Of a setting's benches after the screen: who is compared, with which seeds, and on which untouched problems."""

    names: tuple[str, ...]
    skip: int = 600
    problems: int = 300
    first: int = 0
    seeds: int = 5
    points: int = 4
    alike: bool = False
    """Whether GRPO has the rate and the updates of the recipe beside it, instead of its own."""


ASKED = ("grpo", "dars-hw", "dars-hw-breadth", "deep-grpo", "xrpo")
DESIGNS = (
    *("invest", "choose", "choose-pass2", "choose-pass3", "choose-pass4", "choose-prefix", "choose-slope3"),
    *("choose-replay2", "choose-replay4", "choose-annealed"),
)
LATER = {
    "frontier": {
        "later": Part(("grpo", "choose-pass3", "choose-slope3"), skip=900),
        "again": Part(("grpo", "choose-slope3"), skip=1200, problems=600, first=5, seeds=10, points=1),
        "last": Part(("grpo", "choose-slope3", "choose-annealed"), skip=1800, first=15),
        "control": Part(("grpo", "choose-slope3"), skip=2100, first=20, alike=True),
    },
    "sparse": {
        "later": Part(("grpo", "prefix-replay", "choose-replay2", "choose-replay4"), skip=900, first=5),
        "last": Part(("grpo", "choose-annealed"), skip=1200, first=10),
        "control": Part(("grpo", "choose-annealed"), skip=1500, first=15, alike=True),
    },
}
LATER_CHOSEN = {  # rate, and updates a step, of designs that came after the screen
    "frontier": dict.fromkeys(("choose-pass3", "choose-slope3", "choose-annealed"), (2e-4, 1)),
    "sparse": dict.fromkeys(("choose-replay2", "choose-replay4", "choose-annealed"), (1e-4, 4)),
}
KEYS = ("learn.lr", "learn.minibatches")
OTHERS = (
    *("dapo", "dars-et", "dars-et-breadth", "xrpo-no-icl", "deep-lambda-0.1", "treerl", "tree-grpo"),
    *("cures", "greso", "passk-training", "ds-grpo", "f-grpo", "vip", "pilot-commit", "knapsack", "prefixrl"),
    *("rft-entropy", "success-replay", "prefix-replay"),
)
LEFT_OUT = {  # of the screen, beside what came later
    "frontier": ("choose-replay2", "choose-replay4", "prefix-replay", "success-replay"),  # they joined after it
    "sparse": ("choose", "choose-prefix", "choose-pass3", "choose-pass4"),
}
SEARCHED = ("frontier", "sparse")
LAST = (*ASKED, "choose-slope3", "choose-annealed", "prefix-replay", "passk-training")  # in the other settings
BEST = 2
TITLES = {
    "compared": "",
    "later": ", later designs",
    "again": ", once more",
    "last": ", the last design",
    "control": ", beside GRPO at the same rate and updates",
}
POOLS = {"countdown": 2048, "frontier": 2048, "sparse": 512, "prose": 512}
TOKENS = {"prose": 2_400_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*SETTINGS, "pack", "draw"))
    parser.add_argument("--runs", type=Path, default=Path("runs/map"), metavar="DIR", help="runs; kept")
    asked = parser.parse_args()
    if asked.what in SETTINGS:
        place = asked.runs / asked.what
        tuned = screened(asked.what, place / "screen")
        compared(asked.what, "compared", Part((*chosen(tuned),)), tuned, place)
        for name, part in LATER.get(asked.what, {}).items():
            compared(asked.what, name, part, later(asked.what, part, tuned), place)
    if asked.what == "pack":
        packed(asked.runs)
    else:
        draw(RESULTS)


def packed(runs: Path) -> None:
    """What is finished of every bench that is not done."""
    places = {file.parent: RESULTS / file.parent.relative_to(runs) for file in sorted(runs.glob("*/*/bench.yaml"))}
    unfinished = {found: out for found, out in places.items() if not (out / "results.json").exists()}
    if not unfinished:
        sys.exit(f"{runs} holds no bench that is not done (--runs)")
    for found, out in unfinished.items():
        print(f"{out / FINISHED}: {pack(found, out / FINISHED)} runs")


def screened(setting: str, out: Path) -> Mapping[str, Any]:
    """The tuning of a bench whose own runs have one step: what was tried of each recipe, and what was best."""
    kept = RESULTS / setting / "screen"
    if not (kept / "results.json").exists():
        unpack(kept / FINISHED, out)
        asked = ["--setting", setting, pool(setting), "--seeds", "1", "--steps", "1", "--points", "1"]
        asked += ["--tune", "learn.lr=1e-4,2e-4", "--tune", "learn.minibatches=1,4", "--tune-by", "mean"]
        asked += ["--tune-seeds", "1", "--tune-tokens", "1200000", "--tune-problems", "150"]
        bench([*map(named, candidates(setting))], *asked, "--out", out)
        keep(out, kept)
    found: Mapping[str, Any] = json.loads((kept / "results.json").read_bytes())["tuning"]
    return found


def candidates(setting: str) -> list[str]:
    """Whom the screen of a setting tries, by the rule."""
    if setting not in SEARCHED:
        return [*LAST]
    left_out = {*LEFT_OUT[setting], *LATER_CHOSEN[setting]}
    return [*ASKED, *(name for name in (*DESIGNS, *OTHERS) if name not in left_out)]


def chosen(tuned: Mapping[str, Any]) -> list[str]:
    """By the rule: those asked after, the best designs and the best others; one with a failed run comes last."""

    def best(names: Sequence[str]) -> list[str]:
        return sorted((name for name in names if name in tuned), key=lambda name: usual(tuned[name]), reverse=True)

    return [*ASKED, *best(DESIGNS)[:BEST], *best(OTHERS)[:BEST]]


def usual(choice: Mapping[str, Any]) -> float:
    """The mean of the criterion over all runs of a recipe's tuning."""
    return fmean(each["scores"]["criterion"]["value"] if each["scores"] else -inf for each in choice["tried"])


def later(setting: str, part: Part, tuned: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the settings of the designs that came after the screen."""
    values = {name: dict(zip(KEYS, both, strict=True)) for name, both in LATER_CHOSEN[setting].items()}
    found = {**tuned, **{name: {"chosen": chosen} for name, chosen in values.items()}}
    return found | {"grpo": found[part.names[1]]} if part.alike else found


def compared(setting: str, name: str, part: Part, tuned: Mapping[str, Any], place: Path) -> None:
    """The bench of the chosen recipes, each as a file that says its tuned settings, one seed after another.

    So every seed that is finished has its measurement on the untouched problems, and needs its policies no more.
    """
    kept, out = RESULTS / setting / name, place / name
    if (kept / "results.json").exists():
        return
    files = []
    for recipe in part.names:
        values = {key.removeprefix("learn."): value for key, value in tuned[recipe]["chosen"].items()}
        file = place / "recipes" / f"{recipe}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump({"extends": named(recipe), "settings": {setting: {"learn": values}}}))
        learn = load_recipe(str(file), setting=setting).learn
        if (learn.lr, learn.minibatches) != (values["lr"], values["minibatches"]):
            sys.exit(f"{file} comes to {learn.lr} and {learn.minibatches}, not to its tuned {values}")
        files.append(str(file))
    unpack(kept / FINISHED, out)
    asked = ["--setting", setting, pool(setting), "--tokens", TOKENS.get(setting, 3_600_000), "--points", part.points]
    asked += ["--first-seed", part.first]
    asked += ["--untouched", part.problems, "--untouched-skip", part.skip]
    begun = out / "bench.yaml"
    fewest = yaml.safe_load(begun.read_text("utf-8"))["seeds"] if begun.is_file() else 1  # a bench takes no fewer
    for seeds in range(fewest, part.seeds + 1):
        bench(files, *asked, "--seeds", seeds, "--out", out)
    keep(out, kept)


def pool(setting: str) -> str:
    """The override, for all recipes."""
    return f"task.pool={POOLS[setting]}"


def named(recipe: str) -> str:
    """A recipe that is not shipped lies beside the studies.

    >>> named("grpo"), Path(named("deep-lambda-0.1")).name
    ('grpo', 'deep-lambda-0.1.yaml')
    """
    file = HERE / "studies" / "recipes" / f"{recipe}.yaml"
    return os.path.relpath(file) if file.exists() else recipe


def keep(found: Path, out: Path) -> None:
    """What is committed of a bench: its numbers, pages and recipes, without the runs and the places of this machine.

    The page's command is for the folder in which it is committed, where every recipe lies as it was run: whole.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copy(found / name, out / name)
    shutil.copytree(found / "recipes", out / "recipes", dirs_exist_ok=True)
    results = json.loads((found / "results.json").read_bytes())
    _, *words = results["environment"]["command"]
    values = words.index("--setting")
    recipes = [f"recipes/{Path(word).stem}.yaml" for word in words[1:values]]
    budget = ["runs" if word == str(found) else word for word in words[values + 3 :]]  # behind setting and pool
    text = (found / "page.md").read_text("utf-8")
    was, now = (shlex.join(["outrider", *asked]) for asked in (words, ["bench", *recipes, *budget]))
    (out / "page.md").write_text(text.replace(was, now), "utf-8")
    results["environment"]["command"] = ["outrider", "bench", *recipes, *words[values : values + 3], *budget]
    # last: where it is, the bench is done
    (out / "results.json").write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    (out / FINISHED).unlink(missing_ok=True)


def draw(out: Path) -> None:
    """The page and the pictures of all settings that are done, and a page of each."""
    if not (results := done(out)):
        sys.exit(f"{out} holds no setting yet: python benchmarks/map.py {SETTINGS[0]}")
    (out / "page.md").write_text(page(results), "utf-8")
    for setting in dict.fromkeys(found["setting"] for found in results.values()):
        benches = {title: found for title, found in results.items() if found["setting"] == setting}
        (out / setting / "page.md").write_text(setting_page(setting, benches), "utf-8")
    figure(results).savefig(out / "map.png")
    if told := recommendations(results):
        own = [found for found in results.values() if found["part"] != "control"]  # there GRPO is another
        best_figure(told, own).savefig(out / "best.png")
    else:
        (out / "best.png").unlink(missing_ok=True)


def done(out: Path) -> dict[str, Results]:
    """What the finished benches found, each with what was tuned for it."""
    results = {}
    for setting, part in product(SETTINGS, TITLES):
        if (out / setting / part / "results.json").exists():
            screen, found = (json.loads((out / setting / at / "results.json").read_bytes()) for at in ("screen", part))
            tuned = screen["tuning"]
            if part != "compared":
                tuned = later(setting, LATER[setting][part], tuned)
            with (out / setting / part / "numbers.csv").open(encoding="utf-8", newline="") as file:
                told = {"numbers": [*csv.DictReader(file)], "tuned": tuned, "setting": setting, "part": part}
            results[setting + TITLES[part]] = found | told
    return results


def bench(recipes: Sequence[str], *words: object) -> None:
    """A bench in a process of its own. One with runs that failed is a result, which says so."""
    here = os.environ | {"OMP_NUM_THREADS": "1"}
    status = subprocess.call([sys.executable, "-m", "outrider", "bench", *recipes, *map(str, words)], env=here)
    if status > 1 or status < 0:
        sys.exit(status)


if __name__ == "__main__":
    main()
