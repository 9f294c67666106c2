"""The import rules: nothing imports upwards, what needs no torch imports none, and a name means one thing.

Usage: ``python tools/check_layers.py [folder that holds outrider/]``. Four checks, all with exit status 1 when broken:

1. by reading: every import of every module, inside functions too, against the tables ``LAYERS`` and ``PHASES``;
2. by reading: no files import each other in a circle, by any way around, for types neither;
3. by reading: a public class, or a name of a type, exists once in the whole package: one word for one thing;
4. by running: the light layers in a new interpreter, which must not load torch and be quick to import.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path

PACKAGE = "outrider"
GROUND = {
    "arrays",
    "callable_room",
    "components",
    "errors",
    "importing",
    "interrupts",
    "needs",
    "on_device",
    "options",
    "plugins",
    "texts",
}
VOCABULARY = GROUND | {"record"}

# A layer is a folder or file of the package, and the layers it may import. "*.options" are the options of a torch
# layer: a recipe can be read, checked and printed where no torch is installed. Components of the objective are options
# with a formula, which imports torch when it is called. New folders get a row here first.
LAYERS: dict[str, set[str]] = {
    "arrays": set(),
    "callable_room": set(),
    "errors": set(),
    "interrupts": set(),
    "needs": set(),
    "on_device": set(),
    "options": {"errors"},
    "importing": {"errors"},
    "plugins": {"errors", "importing", "options"},
    "components": {"errors", "importing", "plugins"},
    "texts": set(),
    # the words; everyone speaks them, they know no one
    "record": GROUND,
    # what a method is made of: pure functions and planners over records, which therefore compose freely
    "explore": VOCABULARY,
    "credit": VOCABULARY,
    "measure": VOCABULARY,
    # verifying an answer in a killable process, and problems with the rule that verifies them
    "verify": VOCABULARY,
    # what answers a policy between its turns
    "environments": VOCABULARY | {"verify"},
    "tasks": VOCABULARY | {"verify", "environments"},
    # the engines: they execute plans and advantages, and never ask which method made them
    "*.options": VOCABULARY | {"credit", "objective"},
    "model": VOCABULARY | {"*.options"},
    "objective": VOCABULARY | {"*.options", "credit"},
    "sample": VOCABULARY | {"*.options", "model", "environments"},
    "learn": VOCABULARY | {"*.options", "credit", "model", "objective", "tasks"},  # tasks: worked solutions for SFT
    # rollouts of other frameworks, read as one plain table
    "importers": VOCABULARY,
    # a recipe names components of all of the above, but runs none
    "config": VOCABULARY | {"*.options", "explore", "credit", "tasks"},
    # what a run leaves on disk, and what a person sees of it
    "runs": VOCABULARY | {"config"},
    "screen": VOCABULARY | {"config", "measure", "runs"},
}
# several processes that work as one, and what a configuration will need: for code that starts runs
LAYERS["processes"] = VOCABULARY
LAYERS["preflight"] = VOCABULARY | {"*.options", "config", "verify", "tasks", "model", "explore", "credit", "processes"}
LAYERS["estimate"] = set(LAYERS)
# the loop, and what starts its processes: they may import everything below, in this order
for above in ["train", "commands", "analyse", "bench", "testing"]:
    LAYERS[above] = set(LAYERS)
# evidence reads what a run has left and knows nothing of the loop, so it serves rollouts of any trainer
LAYERS["report"] = VOCABULARY | {"config", "runs", "measure", "importers", "analyse"}
LAYERS["commands"] |= {"report"}  # what it finds in a run that has ended, which trackers are sent
LAYERS["bench"] |= {"report"}  # its page is built from the same parts
LAYERS["view"] = VOCABULARY | {"config", "runs", "measure", "importers", "analyse", "report"}
LAYERS["exporters"] = VOCABULARY | {"config", "runs", "importers", "report", "tasks"}
LAYERS["score"] = VOCABULARY | {"config", "tasks", "measure", "importers", "report"}
LAYERS["validate"] = VOCABULARY | {"*.options", "config", "tasks", "model", "environments", "preflight"}
# parts of Outrider inside other trainers, which are imported when they are used; and the command line
for above in ["api", "integrations", "cli", "__main__"]:
    LAYERS[above] = set(LAYERS)

# A folder whose files work in phases, in this order: a file imports files of its own phase and of earlier ones.
PHASES: dict[str, dict[str, set[str]]] = {
    "bench": {
        "plan": {"spec", "cell", "begin", "proportion", "planned", "dry"},
        "run": {"child", "outlook", "pool"},
        "collect": {"results", "spending", "tallies"},
        "compare": {"crossed", "course", "equal", "rates", "tuning", "report"},
        "draw": {
            "blocks",
            "verdict",
            "sections",
            "tuning_section",
            "provenance",
            "content",
            "tables",
            "page",
            "picture",
        }
        | {"draw"},
        "command": {"bench_command"},  # calls all of these
    }
}

LIGHT = {"errors", "options", "record", "explore", "credit", "measure", "config", "*.options"}
HEAVY = {"torch", "transformers", "outrider.verify.sandbox"}  # the last for what it brings in: processes, sockets
QUICK = ("record", "explore", "credit", "measure", "config")
CALLS = 550_000  # 0.42 s on the machine where 0.5 s was the limit


def layer_of(module: str) -> str | None:
    """The layer of a dotted module name; None for the package itself, which holds the version and no code.

    >>> layer_of("outrider.credit.chain"), layer_of("outrider.learn.options"), layer_of("outrider")
    ('credit', '*.options', None)
    """
    _, *parts = module.split(".")
    if len(parts) == 2 and parts[1] == "options":
        return "*.options"
    return parts[0] if parts else None


def imported(tree: ast.AST, package: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module imported anywhere in a file of ``package``.

    ``from a import b`` names ``a.b`` where that is one of the ``modules``, else ``a``.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in modules else base


def module_name(path: Path, root: Path) -> str:
    """The dotted name of a file below ``root``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def broken_imports(root: Path) -> list[str]:
    """One sentence for every import in ``root`` that the table forbids, and for every circle of files."""
    files = {module_name(path, root): path for path in sorted((root / PACKAGE).rglob("*.py"))}
    broken, targets = [], dict[str, set[str]]()
    files.pop(PACKAGE, None)  # it names what the rooms offer, for types and when a name is first used
    for module, path in files.items():
        layer = layer_of(module)
        if layer is not None and layer not in LAYERS:
            broken.append(f"{path}: {layer} has no row in the table of tools/check_layers.py")
            continue
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found = [*imported(ast.parse(path.read_text(encoding="utf-8"), str(path)), package, set(files))]
        broken += [f"{path}:{line}: {reason}" for line, target in found if (reason := forbidden(layer, target))]
        targets[module] = {target for _, target in found if target in files and target != module}
    broken += [f"files import each other in a circle: {' -> '.join(around)}" for around in circles(targets)]
    return broken + out_of_phase(targets)


def out_of_phase(targets: Mapping[str, set[str]]) -> list[str]:
    """One sentence for every import of a later phase, and for every file that is not in exactly one phase.

    >>> out_of_phase({"outrider.bench.spec": {"outrider.bench.pool"}, "outrider.bench.pool": set()})
    ['outrider.bench.spec (plan) imports outrider.bench.pool (run): a later phase']
    """
    broken = []
    for folder, phases in PHASES.items():
        files = [module for module in targets if module.startswith(f"{PACKAGE}.{folder}.")]
        found = {module: [phase for phase in phases if module.split(".")[2] in phases[phase]] for module in files}
        broken += [f"{module} has {len(of)} phases in PHASES, not one" for module, of in found.items() if len(of) != 1]
        place = {module: list(phases).index(of[0]) for module, of in found.items() if len(of) == 1}
        broken += [
            f"{module} ({found[module][0]}) imports {target} ({found[target][0]}): a later phase"
            for module in place
            for target in sorted(targets[module] & place.keys())
            if place[target] > place[module]
        ]
    return broken


def circles(targets: Mapping[str, set[str]]) -> list[list[str]]:
    """The shortest circle through the first file of each group of files that import each other; empty without any.

    >>> circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    [['b', 'c', 'b']]
    """
    left, found = {name: set(below) for name, below in targets.items()}, []
    while True:
        while leaves := [name for name, below in left.items() if not below & left.keys()]:
            for name in leaves:
                del left[name]
        around = next((path for name in sorted(left) if (path := _back_to(name, left))), None)
        if around is None:
            return found
        found.append(around)
        for name in around[:-1]:
            del left[name]


def _back_to(start: str, targets: Mapping[str, set[str]]) -> list[str] | None:
    """The shortest way from a file back to itself; None where there is none."""
    paths, seen = [[start]], set[str]()
    while paths:
        path = paths.pop(0)
        for name in sorted(targets.get(path[-1], ())):
            if name == start:
                return [*path, start]
            if name in targets and name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return None


def names_twice(root: Path) -> list[str]:
    """One sentence for every public class or type alias that two modules define."""
    places: dict[str, list[str]] = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for name in defined_types(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            places.setdefault(name, []).append(module_name(path, root))
    return [f"{name} is defined in {' and '.join(at)}" for name, at in places.items() if len(at) > 1]


def defined_types(tree: ast.Module) -> Iterator[str]:
    """Public names in capitals and small letters that a module defines at its top: classes and aliases of types.

    >>> list(defined_types(ast.parse("class Row: pass\\nRows = list[Row]\\nLIMIT = 3\\n_Own = int")))
    ['Row', 'Rows']
    """
    for node in tree.body:
        named = [node.name] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.Assign):
            named = [target.id for target in node.targets if isinstance(target, ast.Name)]
        yield from (name for name in named if name[0].isupper() and name != name.upper())


def forbidden(layer: str | None, target: str) -> str | None:
    """Why a module of ``layer`` may not import ``target``; None if it may."""
    top = target.split(".")[0]
    name = layer or PACKAGE
    if top in HEAVY and (layer is None or layer in LIGHT):
        return f"{name} imports {top}; it must work without"
    if top != PACKAGE or (below := layer_of(target)) in (None, layer):
        return None
    allowed = LAYERS[layer] if layer else set()
    if below in allowed:
        return None
    return f"{name} imports {target}; it may import {', '.join(sorted(allowed)) or 'nothing of the package'}"


def run(code: str, root: Path) -> str:
    """Output of ``code`` in a new interpreter that finds the package in ``root``.

    Bytecode is kept even where the environment forbids it: the second import is the one a user waits for every day.
    One thread: those that NumPy's linear algebra starts idle by spinning, which counts as processor time.
    """
    settings = {"PYTHONPATH": str(root.resolve()), "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"}
    environment = os.environ | settings
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the light layers cannot be imported:\n{done.stderr}")
    return done.stdout


def loaded_heavy(root: Path) -> list[str]:
    """One sentence for every heavy package that the light modules, all imported, bring in."""
    modules = [module_name(path, root) for path in sorted((root / PACKAGE).rglob("*.py"))]
    light = [m for m in modules if layer_of(m) in LIGHT | {None}]
    loaded = run(f"import sys, {', '.join(light)}\nprint(*sys.modules)", root).split()
    return [f"importing the light layers loads {heavy}" for heavy in sorted(HEAVY & set(loaded))]


_COUNTED_IMPORT = """
import sys
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
import {names}
sys.setprofile(None)
print(calls)
"""


def slow_import(root: Path) -> list[str]:
    """One sentence if importing the layers that are meant to be quick takes too many calls of functions.

    Calls stand for time. The same import took 0.42 to 0.61 s of processor time within one hour on one machine, in
    step with no yardstick (NumPy, pydantic and yaml), and the same number of calls within a thousandth. Work without
    calls, such as a long loop of sums, is not seen; heavy packages are, by :func:`loaded_heavy`.
    """
    names = ", ".join(f"{PACKAGE}.{name}" for name in QUICK)
    calls = int(run(_COUNTED_IMPORT.format(names=names), root))
    told = f"import in {calls:,} calls of functions, {CALLS:,} allowed"
    print(f"{', '.join(QUICK)} {told}")
    return [f"the light layers {told}"] if calls > CALLS else []


def main() -> int:
    """Print what is broken; 1 if anything is, 2 if there is nothing to check."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    if not (root / PACKAGE).is_dir():
        print(f"no folder {PACKAGE} in {root}")
        return 2
    broken = broken_imports(root) + names_twice(root)
    if not broken:  # otherwise the rest would only repeat it
        broken = loaded_heavy(root) + slow_import(root)
    if broken:
        print("broken import rules:", *broken, sep="\n  ")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
