"""``outrider analyse``: analyse a run's rollouts with a model, by token entropy, probability shifts or token
replacement."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.cli.arguments import Commands, folder, interruptible
from outrider.interrupts import interrupts_held

if TYPE_CHECKING:
    from outrider.analyse.selection import AnalysisPlan

_MODELS = "trained, start (the run's initial model), step-<n> (a checkpoint), base:<name>, a folder or a hub name"


def add_to(commands: Commands) -> None:
    """Add the command and its three analyses to the parser."""
    parser = commands.add_parser(
        "analyse", help="run a model over a run's rollouts", description=__doc__, allow_abbrev=False
    )
    kinds = parser.add_subparsers(title="analyses", metavar="tokens|shift|intervene", required=True)
    tokens = _analysis(kinds, "tokens", "entropy, gradient norm and branching factor of every token", run_tokens)
    tokens.add_argument("--model", metavar="MODEL", help=f"{_MODELS} (trained)")
    tokens.add_argument("--temperature", type=float, metavar="T", help="softmax temperature (1)")
    tokens.add_argument(
        "--mass",
        type=float,
        action="append",
        metavar="P",
        help="probability mass (top-p) for which the tokens in the nucleus are counted; repeatable (0.95)",
    )
    shift = _analysis(kinds, "shift", "difference in every token's probability between two models", run_shift)
    shift.add_argument("--before", metavar="MODEL", help=f"{_MODELS} (start)")
    shift.add_argument("--after", metavar="MODEL", help=f"{_MODELS} (trained)")
    shift.add_argument("--temperature", type=float, metavar="T", help="softmax temperature (1)")
    intervene = _analysis(kinds, "intervene", "replace tokens and measure the effect on success", run_intervene)
    intervene.add_argument("--model", metavar="MODEL", help=f"{_MODELS} (trained)")
    intervene.add_argument(
        "--positions", type=int, metavar="N", help="positions per response, one in each of as many equal sections (5)"
    )
    intervene.add_argument(
        "--choose",
        metavar="HOW",
        help="position in a section: its highest entropy (entropy), or random (default: entropy)",
    )
    intervene.add_argument(
        "--k", type=int, metavar="K", help="continuations with the original token, and as many with its replacement (8)"
    )
    intervene.add_argument("--seed", type=int, metavar="N", help="seed of continuations and random positions (0)")
    intervene.add_argument(
        "overrides",
        nargs="*",
        metavar="key=value",
        help="overrides of sampling and verification, e.g. sample.temperature=0.6",
    )


def run_tokens(arguments: argparse.Namespace) -> int:
    """``outrider analyse tokens``: entropy, gradient norm and branching factor of every token."""
    from outrider.analyse.arguments import TokensAnalysis
    from outrider.analyse.selection import select, token_parts
    from outrider.config import load_options

    data = _given(arguments, "model", "temperature") | ({} if arguments.mass is None else {"masses": arguments.mass})
    options = load_options(TokensAnalysis, data, [], "analyse tokens")
    plan = select(arguments.run_folder, options)
    if arguments.dry_run:
        return _dry(plan, f"1 pass in {_parts(token_parts(plan))}")
    with interrupts_held():
        from outrider.analyse.tokens_command import tokens_command

    return interruptible(lambda: tokens_command(arguments.run_folder, options, plan, _out(arguments, "tokens")))


def run_shift(arguments: argparse.Namespace) -> int:
    """``outrider analyse shift``: difference in every token's probability between two models."""
    from outrider.analyse.arguments import Shift
    from outrider.analyse.selection import select, token_parts
    from outrider.config import load_options

    options = load_options(Shift, _given(arguments, "before", "after", "temperature"), [], "analyse shift")
    plan = select(arguments.run_folder, options)
    if arguments.dry_run:
        return _dry(plan, f"2 passes in {_parts(token_parts(plan))}")
    with interrupts_held():
        from outrider.analyse.shift_command import shift_command

    return interruptible(lambda: shift_command(arguments.run_folder, options, plan, _out(arguments, "shift")))


def run_intervene(arguments: argparse.Namespace) -> int:
    """``outrider analyse intervene``: effect of replacing a token on the success rate.

    The task, the sampling options and the held-out problems are those of the run, unless they are overridden.
    """
    from outrider.analyse.arguments import Intervene
    from outrider.analyse.selection import intervention_cost, intervention_parts, select
    from outrider.config import config_of_run, load_options, read_yaml
    from outrider.runs.folder import RunFolder

    config = RunFolder.existing(arguments.run_folder).config
    recipe = config_of_run(read_yaml(config.read_text("utf-8"), str(config)))
    data = _given(arguments, "model", "positions", "choose", "k", "seed")
    data |= {key: recipe[key] for key in ("task", "sample", "evaluate") if key in recipe}
    options = load_options(Intervene, data, arguments.overrides, "analyse intervene")
    plan = select(arguments.run_folder, options)
    if arguments.dry_run:
        cost = intervention_cost(plan, options)
        parts = _parts(intervention_parts(plan, options))
        return _dry(
            plan,
            f"{cost.positions:,} positions, {cost.continuations:,} continuations, about {cost.tokens:,} tokens to "
            f"generate if they are as long as the responses were (at most {cost.most_tokens:,}), in {parts}",
        )
    with interrupts_held():
        from outrider.analyse.intervene_command import intervene_command

    return interruptible(lambda: intervene_command(arguments.run_folder, options, plan, _out(arguments, "intervene")))


def _analysis(kinds: Any, name: str, help: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    """Add a parser with the arguments that all analyses share."""
    parser: argparse.ArgumentParser = kinds.add_parser(name, help=help, description=run.__doc__, allow_abbrev=False)
    parser.add_argument("run_folder", type=folder, metavar="RUN", help="run folder, or the folder of `evaluate --out`")
    parser.add_argument("--split", metavar="NAME", help="split of the rollouts: train, evaluate or greedy (train)")
    parser.add_argument(
        "--steps", metavar="WHICH", help="steps to analyse: last, all, or numbers and ranges such as 1,50,90-105 (last)"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="maximum rollouts per step, evenly spaced within the step (all)"
    )
    parser.add_argument("--micro-tokens", type=int, metavar="N", help="maximum tokens per forward pass (4096)")
    parser.add_argument(
        "--out", type=folder, metavar="DIR", help=f"output folder, resumed if it exists (default: RUN/analysis/{name})"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the cost and stop")
    parser.set_defaults(run=run)
    return parser


def _given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return the values of those options that are given on the command line."""
    values = {name: getattr(arguments, name) for name in (*names, "split", "steps", "limit", "micro_tokens")}
    return {name: value for name, value in values.items() if value is not None}


def _out(arguments: argparse.Namespace, kind: str) -> Path:
    run, out = arguments.run_folder, arguments.out
    return Path(run / "analysis" / kind if out is None else out)


def _dry(plan: AnalysisPlan, cost: str) -> int:
    steps = f"{len(plan.steps)} step{'s' * (len(plan.steps) > 1)}"
    sys.stdout.write(f"{plan.rollouts:,} {plan.split} rollouts of {steps}, {plan.tokens:,} tokens; {cost}\n")
    return 0


def _parts(parts: Sized) -> str:
    return f"{len(parts)} part{'s' * (len(parts) > 1)}"
