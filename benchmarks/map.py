"""Which method when: every recipe in a setting, screened, then those that matter at five seeds.

The rule, of 2026-11-23, before the first run, with what came later. It was worded anew on 11-26 while the first bench
of step 9 ran; what was written before which run is in git (``git log -p benchmarks/map.py``, the old words whole at
2d7a062), and what was known then in docs/log.md.

1. *Screen*: every recipe with learning rates of 1e-4 and 2e-4 and with 1 and 4 updates a step, all with all, each once
   with 1,200,000 generated tokens, on held-out problems 300 to 449. It has the first pair that is within one standard
   error of its best, by the mean of pass@1 and the largest pass@k.
2. *Choose*: GRPO, those whose papers' headlines are asked after, two of our designs and two of the others: those with
   the largest mean over all four of their runs, which chance moves half as much as a single run; the best of four it
   moves upwards.
3. *Compare*: five seeds of 3,600,000 tokens, four evaluations along the way, on the first 300 held-out problems, by
   which no rate and none of the recipes was chosen; later designs were, as is said below.
4. *Confirm*: the last policies, once, on held-out problems 600 to 899, which nothing has been measured on before.
   Claims of one recipe over another are made there.
5. *Recommend* (11-24, when one seed of ``frontier`` was known): who is ahead of GRPO in pass@1 or in the largest
   pass@k and behind in neither, by intervals on the untouched problems; of several the one with the largest sum of both
   changes; nobody where there is none. The setting names it, and it is shipped.
6. *Later* (11-25): designs of ours that came after a comparison have a bench of their own, as in 3, with untouched
   problems of their own. Who is ahead there at *both* ends is recommended before all others, of two the one with the
   larger sum.
7. *Again* (11-25, before its first run): ``choose-slope3``, which missed 6 on ``frontier`` by 0.001 of an interval,
   beside GRPO in ten seeds that nobody had looked at, on 600 untouched problems, measured at the end alone. That bench
   alone decides on it.
8. *Last* (11-25, before its first run): ``choose-annealed`` in all four settings, so that one design is measured in
   all: on ``frontier`` and ``sparse`` as in 6, in seeds that nobody had looked at; where it is not ahead at both ends,
   all stays as it was.
9. *Control* (11-26, before its first run, after a review had said that rate and updates alone may be what is ahead):
   GRPO's pair is the first within one standard error in a screen of single runs, not its best; whom the map recommends
   may have another. Then it is compared once more with GRPO at *its* rate and updates, in five seeds and on problems
   that nobody has looked at. Who is ahead at no end there or behind at one, by intervals, is recommended no more, but
   the next who is not refused so.

10. *The better baseline* (11-26, before its first run): by the control GRPO has more with one try on ``sparse`` with
   four updates than as it was tuned, so ``prefix-replay``, which 5 recommends with one, is compared with it at four,
   in seeds and on problems that nobody has looked at. It is recommended with four if it is ahead at one end there and
   behind at none.
11. *The better baseline in the other settings* (11-26, before its first run, after a review): on ``countdown`` and
   ``frontier``, too, GRPO's screen has four updates with 1e-4 level with what was chosen or above it, and whom
   ``countdown`` recommends was chosen out of eight by the very problems that its change is told of. So whom they
   recommend is compared there as in 10. Who fails there is recommended no more, but the next one is, as by 9. Of the
   996 problems that ``countdown`` holds out 150 are left in one piece, 450 to 599. When ``choose-slope3`` was not
   recommended so on ``frontier``, the next, ``choose-pass4``, was asked the same (before its run). When it was
   refused, too, nobody is recommended there (after both runs): more tries would find somebody by chance.
12. *The better baseline on prose* (11-26, before its first run, after the comparison and a review): there, too, GRPO's
   screen has four updates level with one, and ``dars-hw`` was chosen out of eight by the very problems that its change
   is told of. So it is compared there as in 10, and recommended with four, or no more, but the next one, as by 9.
13. *Exchangeable problems* (11-27, before its first run, after an audit): the held-out problems of ``countdown`` stood
   in the order of their draws, common and easy ones first, so the problems of 3 and of 4 were two populations; and 50
   of the 150 of step 11 had been measured on by the screen. Both benches are repeated on shuffled problems, with new
   seeds: ``confirmed`` repeats 11, ``shuffled`` repeats 3 and 4. The repeated benches replace the first ones, whatever
   they show. Of the 852 shuffled problems 253 had been measured on before: 200 of the 213 with three numbers, of which
   hardly any others exist, and 53 of the 639 with four to six.
14. *Tallies* (11-27, before their first runs): the benches of 10 and 12, whose changes the README tells, had kept no
   successes of single problems, and a run of the same code and seed on another machine comes close to theirs alone.
   ``confirmed`` repeats them on shuffled problems with new seeds, and asks ``choose-pass4`` on ``frontier`` once more
   what 11 had asked. They replace the first ones, whatever they show.

In the settings:

- All draw from a pool of problems, since some recipes need problems that return: 2,048, on ``sparse`` and ``prose``
  512. Of ``sparse`` a screen draws 1,700, and its first runs, with 2,048, had shown every recipe that remembers
  problems as it would be without a memory; they were put aside (11-25).
- ``frontier``: on the problems of the screen ``choose`` had been designed, so it flatters it. ``dars-hw-breadth``,
  whose headline DARS's is, and ``choose-pass2`` joined on 11-24, the latter when the screen had shown ``choose`` ahead
  in pass@1 alone and ``choose-pass4`` in pass@64 alone. Step 6 has ``choose-slope3``, chosen after two seeds of
  1,800,000 tokens on the first 300 problems, and, to tell what of it is the credit's, ``choose-pass3``; two of the five
  seeds are those, so the log tells the other three alone, too. Step 8 has ``choose-slope3`` beside it.
- ``sparse``: four designs that differ from others there only where problems are of several levels are not screened.
  ``success-replay`` and ``prefix-replay`` are, after a look with the screen's seed and problems, which flatters them.
  Step 6 has ``choose-replay2`` and ``choose-replay4``, chosen after one seed on the first 300 problems, and beside them
  ``prefix-replay``, which 5 had recommended, in seeds that nobody had looked at.
- ``countdown`` and ``prose``: nobody is searched for any more (11-25, before their first runs but 18 of ``prose`` with
  longer problems, on which nobody got better, put aside). Those asked after, ``choose-slope3``, ``choose-annealed``,
  and ``prefix-replay`` and ``passk-training``, ahead of GRPO on ``sparse``, are screened, and all compared.
- ``prose``: the screen has 1e-4 alone, since GRPO had more there than at 3e-5, and of four rates none better with
  longer problems, all by single runs (docs/log.md, 11-25), and instead two seeds and 300 problems (300 to 599), since
  9 has shown what a tuning by single runs is worth (11-26, before its first run). 2,400,000 tokens, which are three
  times as dear, and 16 as the largest k, since with 64 tries luck solves a quarter of its problems.

Later designs have one pair of rate and updates, that of the look by which they were chosen. "Updates" above are
``learn.minibatches``; ``dars-hw-breadth`` goes over each twice, so it has twice as many.

Commands: ``python benchmarks/map.py SETTING [--runs DIR]``, where what is finished is taken as it is, here or in what
is committed (a bench runs again where its folder of results is moved away); ``python benchmarks/map.py pack``, which
puts the finished runs of benches that are not done beside the results, for another machine to go on with; ``python
benchmarks/map.py draw``, which makes pages and pictures again from what is committed; and ``python benchmarks/map.py
check``, which computes the committed numbers again from the tallies of each problem. On two cores the screen of a
setting is one to two hours, the comparison one to three, of ``prose`` six.
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
from _map_rule import at_equal_values, recommendations
from _map_setting import setting_page
from _map_tallies import check

from outrider.config import load_recipe
from outrider.runs.environment import environment
from outrider.tasks.heldout import Order

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "map"
FINISHED = "finished.tar.xz"
KEPT = ("bench.yaml", "frontier.png", "numbers.csv", "page.md", "table.md", "tallies.csv")
SETTINGS = ("countdown", "frontier", "sparse", "prose")


class Part(NamedTuple):
    """Of a setting's benches after the screen: who is compared, with which seeds, and on which untouched problems."""

    names: tuple[str, ...]
    skip: int = 600
    problems: int = 300
    first: int = 0
    seeds: int = 5
    points: int = 4
    pair: tuple[float, int] | None = None
    """The rate and the updates of all, instead of their own."""
    order: Order = "drawn"
    """Of the held-out problems."""


ASKED = ("grpo", "dars-hw", "dars-hw-breadth", "deep-grpo", "xrpo")
DESIGNS = (
    *("invest", "choose", "choose-pass2", "choose-pass3", "choose-pass4", "choose-prefix", "choose-slope3"),
    *("choose-replay2", "choose-replay4", "choose-annealed"),
)
NOT_SEARCHED = (*ASKED, "choose-slope3", "choose-annealed", "prefix-replay", "passk-training")
"""Whom a setting compares in which nobody is searched for."""
PARTS = {
    "countdown": {
        "better": Part(("grpo", "prefix-replay"), skip=450, problems=150, first=5, pair=(1e-4, 4)),
        "confirmed": Part(
            ("grpo", "prefix-replay"), skip=600, problems=252, first=10, pair=(1e-4, 4), order="shuffled"
        ),
        "shuffled": Part(NOT_SEARCHED, skip=300, first=15, order="shuffled"),
    },
    "frontier": {
        "later": Part(("grpo", "choose-pass3", "choose-slope3"), skip=900),
        "again": Part(("grpo", "choose-slope3"), skip=1200, problems=600, first=5, seeds=10, points=1),
        "last": Part(("grpo", "choose-slope3", "choose-annealed"), skip=1800, first=15),
        "control": Part(("grpo", "choose-slope3"), skip=2100, first=20, pair=(2e-4, 1)),
        "better": Part(("grpo", "choose-slope3"), skip=2400, first=25, pair=(1e-4, 4)),
        "next": Part(("grpo", "choose-pass4"), skip=2700, first=30, pair=(1e-4, 4)),
        "confirmed": Part(("grpo", "choose-pass4"), first=35, pair=(1e-4, 4), order="shuffled"),
    },
    "sparse": {
        "later": Part(("grpo", "prefix-replay", "choose-replay2", "choose-replay4"), skip=900, first=5),
        "last": Part(("grpo", "choose-annealed"), skip=1200, first=10),
        "control": Part(("grpo", "choose-annealed"), skip=1500, first=15, pair=(1e-4, 4)),
        "better": Part(("grpo", "prefix-replay"), skip=1800, first=20, pair=(1e-4, 4)),
        "confirmed": Part(("grpo", "prefix-replay"), first=25, pair=(1e-4, 4), order="shuffled"),
    },
    "prose": {
        "better": Part(("grpo", "dars-hw"), skip=900, first=5, pair=(1e-4, 4)),
        "confirmed": Part(("grpo", "dars-hw"), skip=500, first=10, pair=(1e-4, 4), order="shuffled"),
    },
}
LATER_PAIRS = {  # rate, and updates a step, of designs that came after the screen
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
TAKEN = 2
TITLES = {
    "compared": "",
    "later": ", later designs",
    "again": ", once more",
    "last": ", the last design",
    "control": ", beside GRPO at the same rate and updates",
    "better": ", with four updates a step",
    "next": ", the next with four updates a step",
    "confirmed": ", with four updates a step, on shuffled problems",
    "shuffled": ", on shuffled problems",
}
REPLACES = {"confirmed": "better", "shuffled": "compared"}
"""By step 13, what a bench on shuffled problems stands for once it is done."""
POOLS = {"countdown": 2048, "frontier": 2048, "sparse": 512, "prose": 512}
SCREENS = {"prose": ("1e-4", 2, 300)}
"""Rates, seeds and problems of a screen that has others than the rest."""
TOKENS = {"prose": 2_400_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*SETTINGS, "pack", "draw", "check"))
    parser.add_argument("--runs", type=Path, default=Path("runs/map"), metavar="DIR", help="runs; kept")
    asked = parser.parse_args()
    if asked.what == "check":
        sys.exit(check(RESULTS))
    if asked.what in SETTINGS:
        refuse_dirty()
        place = asked.runs / asked.what
        tuned = screened(asked.what, place / "screen")
        compared(asked.what, "compared", Part((*chosen(tuned),)), tuned, place)
        for name, part in PARTS.get(asked.what, {}).items():
            compared(asked.what, name, part, tuned_later(asked.what, part, tuned), place)
    if asked.what == "pack":
        packed(asked.runs)
    else:
        draw(RESULTS)


def refuse_dirty() -> None:
    """Numbers that are committed have to be those of a commit."""
    commit = environment()["git"]
    if commit is None or commit.endswith("-dirty"):
        sys.exit(f"this tree is no commit ({commit}): commit first, so that the numbers can be made again")


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
        asked: list[object] = ["--setting", setting, *overrides(setting, "drawn")]
        asked += ["--seeds", 1, "--steps", 1, "--points", 1]
        rates, seeds, problems = SCREENS.get(setting, ("1e-4,2e-4", 1, 150))
        asked += ["--tune", f"learn.lr={rates}", "--tune", "learn.minibatches=1,4", "--tune-by", "mean"]
        asked += ["--tune-seeds", seeds, "--tune-tokens", "1200000", "--tune-problems", problems]
        bench([*map(named, candidates(setting))], *asked, "--out", out)
        keep(out, kept)
    found: Mapping[str, Any] = json.loads((kept / "results.json").read_bytes())["tuning"]
    return found


def candidates(setting: str) -> list[str]:
    """Whom the screen of a setting tries, by the rule."""
    if setting not in SEARCHED:
        return [*NOT_SEARCHED]
    left_out = {*LEFT_OUT[setting], *LATER_PAIRS[setting]}
    return [*ASKED, *(name for name in (*DESIGNS, *OTHERS) if name not in left_out)]


def chosen(tuned: Mapping[str, Any]) -> list[str]:
    """By the rule: those asked after, the best designs and the best others; one with a failed run comes last."""

    def best(names: Sequence[str]) -> list[str]:
        return sorted((name for name in names if name in tuned), key=lambda name: usual(tuned[name]), reverse=True)

    return [*ASKED, *best(DESIGNS)[:TAKEN], *best(OTHERS)[:TAKEN]]


def usual(choice: Mapping[str, Any]) -> float:
    """The mean of the criterion over all runs of a recipe's tuning."""
    return fmean(each["scores"]["criterion"]["value"] if each["scores"] else -inf for each in choice["tried"])


def tuned_later(setting: str, part: Part, tuned: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the values of the designs that came after the screen, or of a bench in which all have the same."""
    pairs = dict.fromkeys(part.names, part.pair) if part.pair else LATER_PAIRS.get(setting, {})
    return {**tuned, **{name: {"chosen": dict(zip(KEYS, pair, strict=True))} for name, pair in pairs.items()}}


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
    asked = ["--setting", setting, *overrides(setting, part.order), "--tokens", TOKENS.get(setting, 3_600_000)]
    asked += ["--points", part.points, "--first-seed", part.first]
    asked += ["--untouched", part.problems, "--untouched-skip", part.skip]
    begun = out / "bench.yaml"
    fewest = yaml.safe_load(begun.read_text("utf-8"))["seeds"] if begun.is_file() else 1  # a bench takes no fewer
    for seeds in range(fewest, part.seeds + 1):
        bench(files, *asked, "--seeds", seeds, "--out", out)
    keep(out, kept)


def overrides(setting: str, order: Order) -> tuple[str, str]:
    """For all recipes."""
    return f"task.pool={POOLS[setting]}", f"task.heldout_order={order}"


def named(recipe: str) -> str:
    """A recipe that is not shipped lies beside the studies.

    >>> named("grpo"), Path(named("deep-lambda-0.1")).name
    ('grpo', 'deep-lambda-0.1.yaml')
    """
    file = HERE / "studies" / "recipes" / f"{recipe}.yaml"
    return os.path.relpath(file) if file.exists() else recipe


def keep(found: Path, out: Path) -> None:
    """What is committed of a bench: its numbers, pages and recipes, without the runs and the places of this machine.

    The page's command is for the folder in which it is committed, where every recipe lies as it was run: whole, so that
    it takes no setting and no pool; the results keep both.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copy(found / name, out / name)
    shutil.copytree(found / "recipes", out / "recipes", dirs_exist_ok=True)
    results = json.loads((found / "results.json").read_bytes())
    _, *words = results["environment"]["command"]
    values = words.index("--setting")
    recipes = [f"recipes/{Path(word).stem}.yaml" for word in words[1:values]]
    budget = ["runs" if word == str(found) else word for word in words[values + 4 :]]  # behind setting and overrides
    text = (out / "page.md").read_text("utf-8")
    was, now = (shlex.join(["outrider", *asked]) for asked in (words, ["bench", *recipes, *budget]))
    if was not in text:
        sys.exit(f"{found / 'page.md'} does not name the bench's command: {was}")
    (out / "page.md").write_text(text.replace(was, now), "utf-8")
    results["environment"]["command"] = ["outrider", "bench", *recipes, *words[values : values + 4], *budget]
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
        best_figure(at_equal_values(told, results)).savefig(out / "best.png")
    else:
        (out / "best.png").unlink(missing_ok=True)


def done(out: Path) -> dict[str, Results]:
    """What the finished benches found, each with what was tuned for it."""
    results = {}
    there = [each for each in product(SETTINGS, TITLES) if (out / each[0] / each[1] / "results.json").exists()]
    replaced = {(setting, REPLACES[part]) for setting, part in there if part in REPLACES}
    for setting, part in there:
        if (setting, part) not in replaced:
            screen, found = (json.loads((out / setting / at / "results.json").read_bytes()) for at in ("screen", part))
            tuned = screen["tuning"]
            if part != "compared":
                tuned = tuned_later(setting, PARTS[setting][part], tuned)
            with (out / setting / part / "numbers.csv").open(encoding="utf-8", newline="") as file:
                told = {"numbers": [*csv.DictReader(file)], "tuned": tuned, "setting": setting, "folder": part}
            told["part"] = REPLACES.get(part, part)
            results[setting + TITLES[part]] = found | told | {"epochs": epochs(out / setting / part / "recipes")}
    return results


def epochs(recipes: Path) -> dict[str, int]:
    """How often each goes over a step's responses, which the screen does not choose."""
    return {file.stem: yaml.safe_load(file.read_text("utf-8"))["learn"]["epochs"] for file in recipes.glob("*.yaml")}


def bench(recipes: Sequence[str], *words: object) -> None:
    """A bench in a process of its own. One with runs that failed is a result, which says so."""
    here = os.environ | {"OMP_NUM_THREADS": "1"}
    status = subprocess.call([sys.executable, "-m", "outrider", "bench", *recipes, *map(str, words)], env=here)
    if status > 1 or status < 0:
        sys.exit(status)


if __name__ == "__main__":
    main()
