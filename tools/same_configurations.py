"""Do two commits resolve every recipe alike? ``python tools/same_configurations.py BEFORE [AFTER]``; AFTER is HEAD.

Each commit is checked out beside the other, and its own code resolves every recipe, shipped or of a study, in every
profile or setting that the commit before has for it. The resolved configurations have to be equal, order and all, but
for the field that says where values come from. The exit status is 1 where anything differs.

Where before has profiles and after has settings: no profile is the setting ``paper``, and the other names are the
same. Profiles were written on top of the paper's values, which say nothing of a GPU; a setting says it once, for all
that is built on it, so where after says it (and before does not) those two values are typed as before has them.

Keys that after has renamed are compared under their present names, as after reads a run of before; their number is
printed. An option that only after has is a difference unless ``--new KEY`` names it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RESOLVE = """
import inspect, json, sys
from pathlib import Path
from outrider.config import list_recipes, load_recipe, read_yaml
from outrider.errors import UserError

before = json.loads(sys.stdin.read())
profiles = "profile" in inspect.signature(load_recipe).parameters
shipped = Path(inspect.getfile(load_recipe)).parents[1]
studies = sorted(map(str, Path("benchmarks/studies/recipes").glob("*.yaml")))
recipes = [*(info.name for info in list_recipes()), *studies]
texts = [(shipped / "recipes" / f"{name}.yaml") if name not in studies else Path(name) for name in recipes]
key = "profiles" if profiles else "settings"
names = {name for file in texts for name in read_yaml(file.read_text(), str(file)).get(key) or ()}
names |= {None} if profiles else {file.stem for file in (shipped / "settings").glob("*.yaml")}
GPU = ["policy.dtype=float32", "learn.gradient_checkpointing=false"]

def resolve(recipe, name, wanted):
    if profiles:
        return load_recipe(recipe, [f"profile={name or 'null'}"]).resolved()
    setting = name or "paper"
    found = load_recipe(recipe, setting=setting).resolved()
    if wanted and wanted["policy"]["dtype"] == "float32" and found["policy"]["dtype"] != "float32":
        return load_recipe(recipe, GPU, setting=setting).resolved() | {"typed": GPU}
    return found

def renamed(configuration):
    try:
        from outrider.config.recipe import Recipe
        from outrider.config.renamed import with_present_keys
    except ImportError:  # a commit without such keys
        return configuration, []
    return with_present_keys(Recipe, configuration, outside=False)

found = {}
for recipe in recipes:
    of = {json.loads(name) for name in before[recipe]} if recipe in before else set() if before else names
    for name in sorted(of if before else names, key=str):
        try:
            found.setdefault(recipe, {})[json.dumps(name)] = resolve(
                recipe, name, before and before[recipe][json.dumps(name)]
            )
        except UserError as error:
            if before:
                found.setdefault(recipe, {})[json.dumps(name)] = {"refused": str(error)}
present = {recipe: {name: renamed(one) for name, one in of.items()} for recipe, of in before.items()}
print(json.dumps({"found": found, "before": present}))
"""
ORIGINS = ("from_profile", "from_setting")


def main() -> int:
    """Resolve and compare; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument("--work-tree", action="store_true", help="AFTER is this work tree, committed or not")
    parser.add_argument("--new", nargs="+", default=[], metavar="KEY", help="options that only AFTER has")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trees = [checkout(arguments.before, Path(scratch) / "before")]
        if not arguments.work_tree:
            trees.append(checkout(arguments.after, Path(scratch) / "after"))
        before = resolved(trees[0], {})["found"]
        answer = resolved(Path.cwd() if arguments.work_tree else trees[1], before)
        for tree in trees:
            subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)
    differences, renamed, typed = 0, 0, []
    for recipe, configurations in answer["before"].items():
        for name, (configuration, keys) in configurations.items():
            renamed += len(keys)
            other = answer["found"].get(recipe, {}).get(name, {"refused": "not there"})
            typed += [f"{recipe} {name}"] if other.pop("typed", None) else []
            for line in different(configuration, other, arguments.new):
                print(f"{recipe}, {name}: {line}")
                differences += 1
    print(f"keys with another name now: {renamed}")
    print(f"options that only after has: {', '.join(arguments.new) or 'none'}")
    print(f"with a GPU's two values typed back: {', '.join(typed) or 'none'}")
    print(f"{sum(map(len, before.values()))} configurations of {len(before)} recipes, {differences} differences")
    return int(bool(differences))


def checkout(commit: str, folder: Path) -> Path:
    """A work tree of a commit."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, commit], check=True)
    return folder


def resolved(tree: Path, before: dict) -> dict:
    """Every recipe of a tree in all that it has, or in all that is there ``before``, by its own code."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE], env=environment, cwd=tree, input=json.dumps(before), capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{tree.name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def different(before: dict, after: dict, new: Sequence[str] = ()) -> list[str]:
    """Where two configurations differ, as dotted keys with both values, but for ``new`` ones; their order counts."""
    one, other = (flat({k: v for k, v in c.items() if k not in ORIGINS}) for c in (before, after))
    if "refused" in after:
        return [after["refused"]]
    keys = [k for k in {**one, **other} if k not in new]
    lines = [f"{k}: {one.get(k)} -> {other.get(k)}" for k in keys if one.get(k) != other.get(k)]
    return lines or ([] if list(one) == [k for k in other if k not in new] else ["another order"])


def flat(data: object, prefix: str = "") -> dict[str, str]:
    """Dotted keys to JSON texts."""
    if not isinstance(data, (dict, list)) or not data:
        return {prefix: json.dumps(data)}
    items = data.items() if isinstance(data, dict) else enumerate(data)
    return {k: v for key, part in items for k, v in flat(part, f"{prefix}.{key}" if prefix else str(key)).items()}


if __name__ == "__main__":
    sys.exit(main())
