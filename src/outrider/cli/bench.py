"""``outrider bench``: compare recipes at equal budgets, over several seeds, on the same held-out problems."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from outrider.cli.arguments import Commands, OldOption, add_setting, folder
from outrider.errors import UserError
from outrider.interrupts import SAME_COMMAND, Terminated


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "bench", help="compare recipes at equal budgets", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "overrides", nargs="+", metavar="RECIPE|key=value", help="recipes to compare, and overrides for all recipes"
    )
    add_setting(parser)
    parser.add_argument(
        "--out", type=folder, metavar="DIR", help="bench folder, resumed if it exists (default: runs/bench-<recipes>)"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="number of seeds; each recipe runs once per seed (5)")
    parser.add_argument(
        "--first-seed",
        type=int,
        metavar="N",
        help="first seed; choose another value to repeat a bench with new seeds (0)",
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--tokens", type=int, metavar="N", help="generated tokens per run (1_600_000)")
    budget.add_argument("--steps", type=int, metavar="N", help="training steps per run, instead of tokens")
    budget.add_argument("--seconds", type=float, metavar="S", help="training seconds per run, instead of tokens")
    parser.add_argument("--base", metavar="RECIPE", help="baseline recipe (the first)")
    parser.add_argument("--points", type=int, metavar="N", help="evaluations per run (4, fewer for a small budget)")
    parser.add_argument("--at-once", type=int, metavar="N", help="concurrent runs (one per core)")
    parser.add_argument(
        "--tune",
        action="append",
        metavar="KEY=V,V,…",
        help="tune a key for each recipe first, e.g. learn.lr=5e-5,1e-4,2e-4; several keys: every combination",
    )
    parser.add_argument("--tune-tokens", type=int, metavar="N", help="generated tokens per tuning run (--tokens)")
    parser.add_argument("--tune-seeds", type=int, metavar="N", help="tuning runs per recipe and combination (1)")
    parser.add_argument("--tune-problems", type=int, metavar="N", help="held-out problems reserved for tuning (200)")
    parser.add_argument("--tune-by", metavar="WHAT", help="selection metric: pass@1, pass@n or their mean (pass@1)")
    parser.add_argument(
        "--final-test", type=int, metavar="N", help="size of the final test set, measured once with the final policies"
    )
    parser.add_argument(
        "--final-test-skip",
        type=int,
        metavar="N",
        help="held-out problems to skip before the final test set (those that this bench evaluates on)",
    )
    for old, now in (("--untouched", "final_test"), ("--untouched-skip", "final_test_skip")):
        parser.add_argument(old, action=OldOption, dest=now, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--dry-run", action="store_true", help="print the plan with its cost in tokens and stop")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the bench, or print its plan."""
    from outrider.bench.begin import refuse_another
    from outrider.bench.bench_command import bench_command
    from outrider.bench.dry import plan
    from outrider.bench.planned import default_folder, planned
    from outrider.bench.spec import given_keys, load_recipes

    words = arguments.overrides
    names, overrides = [w for w in words if "=" not in w], [w for w in words if "=" in w]
    if not names:
        raise UserError("bench needs at least one recipe, as in `outrider bench grpo dr-grpo`")
    loaded = load_recipes(names, overrides, arguments.setting)
    planned_bench = planned(_bench_options(arguments), loaded, given_keys(names, overrides))
    out = arguments.out or default_folder(planned_bench.recipes)
    if arguments.dry_run:
        refuse_another(planned_bench.bench, planned_bench.recipes, out)
        sys.stdout.write(plan(planned_bench))
        return 0
    try:
        return bench_command(planned_bench, out, arguments.at_once)
    except KeyboardInterrupt:
        sys.stderr.write(f"outrider: interrupted; {SAME_COMMAND}\n")
        return 130
    except Terminated as stop:
        raise Terminated(f"{stop}; {SAME_COMMAND}") from stop


def _bench_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of those bench options that are given on the command line. If no budget is given, the budget is
    :data:`~outrider.bench.planned.DEFAULT_TOKENS`."""
    from outrider.bench.planned import DEFAULT_TOKENS

    given = {
        key: getattr(arguments, key)
        for key in ("seeds", "first_seed", "tokens", "steps", "seconds", "points")
        if getattr(arguments, key) is not None
    }
    if not given.keys() & {"tokens", "steps", "seconds"}:
        given["tokens"] = DEFAULT_TOKENS
    options: dict[str, Any] = {"base": arguments.base, **given} if arguments.base else given
    if arguments.final_test is not None:
        options["final_test"] = {"problems": arguments.final_test, "skip": arguments.final_test_skip}
    elif arguments.final_test_skip is not None:
        raise UserError("--final-test-skip is given, but --final-test is not")
    tune = {
        key: getattr(arguments, f"tune_{key}")
        for key in ("tokens", "seeds", "problems", "by")
        if getattr(arguments, f"tune_{key}") is not None
    }
    if arguments.tune is None:
        if tune:
            raise UserError(f"--tune-{next(iter(tune))} is given, but --tune is not")
        return options
    from outrider.bench.spec import parse_tuned

    values = parse_tuned(arguments.tune)
    if "tokens" not in tune and "tokens" not in given:
        raise UserError("--tune needs --tune-tokens where the budget is not in tokens")
    return {**options, "tune": {"values": values, "tokens": given.get("tokens"), **tune}}
