"""Prints rollouts (responses with verdicts, rewards and advantages) as a table or, for long texts, as blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from tokenizers import Tokenizer

from outrider.config import read_yaml
from outrider.errors import UserError, nearest
from outrider.record import Outcome, Rollout
from outrider.runs.folder import RunFolder
from outrider.runs.tokenizer import Locate, tokenizer_of
from outrider.screen.shown import Shown

_LONGEST = 400
_VERDICT = 28
_PROSE = 60  # maximum characters of a text in a table; longer texts would need many lines in a narrow column
_COLOURS = {
    Outcome.CORRECT: "green",
    Outcome.INCORRECT: "red",
    Outcome.UNPARSEABLE: "yellow",
    Outcome.TIMEOUT: "magenta",
    Outcome.ERROR: "magenta",
}


def show_command(run: Path, step: int | None, shown: Shown, name: str, locate: Locate) -> int:
    """Print rollouts of one step of a run, and return 0.

    Problems are shown by their prompts, or by their ids if this machine does not have the tokenizer.

    Args:
        run: run folder.
        step: step of the rollouts. None means the last step.
        shown: selection of rollouts.
        name: split of the rollouts, such as ``train`` or ``evaluate``.
        locate: function that finds a model's tokenizer by the model's name.

    Raises:
        UserError: the run does not exist, or has no such rollouts.
    """
    folder = RunFolder.existing(run)
    steps = folder.rollouts.steps(name)
    if not steps:
        names = folder.rollouts.names()
        raise UserError(f"{run} has no {name} rollouts ({nearest(name, names) if names else 'it has no rollouts'})")
    step = steps[-1] if step is None else step
    if step not in steps:
        close = min(steps, key=lambda known: abs(known - step))
        raise UserError(f"{run} has no {name} rollouts of step {step}; the nearest step is {close}")
    rollouts = shown.of(folder.rollouts.read(step, name))
    tokenizer = tokenizer_of(folder.path, _model(folder), locate)
    Console().print(rollouts_to_read(rollouts, shown.n, tokenizer, f"{name}, step {step}: ", shown.full))
    return 0


def rollouts_to_read(
    rollouts: Sequence[Rollout], n: int, tokenizer: Tokenizer | None = None, source: str = "", full: bool = False
) -> Group:
    """Return at most ``n`` evenly spaced rollouts for ``rich.print``. They form a table or, if texts are long, a list
    of blocks.

    Args:
        rollouts: rollouts in any order. If there are none, the table is empty.
        n: maximum number of rollouts.
        tokenizer: tokenizer of the run, which decodes prompts. Without a tokenizer, problem ids are shown instead of
            prompts.
        source: beginning of the table's title.
        full: whether to show whole texts. If False, long texts are cut and end with the number of omitted characters.
    """
    shown = _Texts.of(rollouts, n, tokenizer, full)
    return Group(Text(source + shown.title, "italic"), _blocks(shown) if shown.longest > _PROSE else _table(shown))


def _model(folder: RunFolder) -> str | None:
    """Return the name of the run's initial model, or None if the configuration cannot be read."""
    with suppress(UserError, OSError):
        config = read_yaml(folder.config.read_text("utf-8"), str(folder.config)) or {}
        return config.get("model")
    return None


class _Texts(NamedTuple):
    """The texts of some rollouts, prepared for a terminal.

    Text that a rollout copied from another rollout (its prefix) is dimmed. «…» marks text from an environment. Long
    texts are cut and end with the number of omitted characters. Terminal control characters are escaped.
    """

    title: str
    rows: list[tuple[str, Text, Rollout]]

    @classmethod
    def of(cls, rollouts: Sequence[Rollout], n: int, tokenizer: Tokenizer | None = None, full: bool = False) -> _Texts:
        """Return the texts of at most ``n`` evenly spaced rollouts. Without a tokenizer, problems are shown by id."""
        shown = [rollouts[i * len(rollouts) // n] for i in range(n)] if len(rollouts) > n else rollouts
        title = f"{len(shown)} of {len(rollouts)} rollouts"
        if any(rollout.observations for rollout in rollouts):
            title += "; «…» is text of the environment"
        by_id = {rollout.id: rollout for rollout in rollouts}
        rows = []
        for r in shown:
            problem = r.problem_id if tokenizer is None else tokenizer.decode(r.prompt_ids.tolist())
            prefix, own = _marked(r.prefix_text, _before(r, by_id)), _marked(r.text, _own(r))
            texts = [_visible(text, full) for text in (problem.strip(), prefix, own)]
            rows.append((texts[0], Text.assemble((texts[1], "dim"), texts[2]), r))
        return cls(title, rows)

    @property
    def longest(self) -> int:
        """Length of the longest text in characters. Each line break adds 60 characters (``_PROSE``), the maximum length
        of a text in a table, so a text with line breaks never fits."""
        texts = [text for problem, response, _ in self.rows for text in (problem, response.plain.strip())]
        return max((len(text) + _PROSE * text.count("\n") for text in texts), default=0)


def _table(shown: _Texts) -> Table:
    """Return a table with one row per rollout. A missing reward is shown as a dash, and a missing advantage is
    omitted."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=True, expand=True)
    table.add_column("problem", ratio=2, overflow="fold")
    table.add_column("response", ratio=5, overflow="fold")
    table.add_column("verdict", width=_VERDICT, overflow="fold")
    for problem, response, rollout in shown.rows:
        table.add_row(Text(problem), response, _verdict(rollout, "\n"))
    return table


def _blocks(shown: _Texts) -> Group:
    """Return one block per rollout, as wide as the terminal, with the response and its verdict.

    A block begins with the problem, unless it is the same as in the previous block.
    """
    blocks: list[RenderableType] = []
    before = None
    for problem, response, rollout in shown.rows:
        if problem != before:
            blocks += [Rule(style="dim"), Text(problem, "cyan"), Text()]
        before = problem
        blocks += [_stripped(response), _verdict(rollout, " · "), Text()]
    return Group(*blocks)


def _stripped(response: Text) -> Text:
    """Strip white space around a response, since most responses begin with a space."""
    text = response.plain
    return response[len(text) - len(text.lstrip()) : max(len(text.rstrip()), 1)] if text.strip() else response


def _marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Mark the spans of a text that come from an environment.

    >>> _marked("1+2=3", [(2, 4)])
    '1+«2=»3'
    """
    last, parts = 0, []
    for begin, end in spans:
        parts += [text[last:begin], f"«{text[begin:end]}»"]
        last = end
    return "".join(parts) + text[last:]


def _own(rollout: Rollout) -> list[tuple[int, int]]:
    """Return where the environment's replies begin and end in the field ``text`` of a rollout."""
    return [(one.begin, one.end) for one in rollout.observations if one.tokens]


def _before(rollout: Rollout, by_id: Mapping[str, Rollout]) -> list[tuple[int, int]]:
    """Return the spans that the environment wrote in a rollout's prefix. They are found in the observations of the
    rollout's ancestors."""
    parent = by_id.get(rollout.parent or "")
    if parent is None:
        return []
    at = len(parent.prefix_text)
    spans = [*_before(parent, by_id), *((at + begin, at + end) for begin, end in _own(parent))]
    return [span for span in spans if span[1] <= len(rollout.prefix_text)]


def _verdict(rollout: Rollout, between: str) -> Text:
    text = Text()
    if rollout.verdict is None:
        text.append("no verdict", "dim")
    else:
        text.append(rollout.verdict.outcome.value, _COLOURS[rollout.verdict.outcome])
    text.append(f"{between}reward {_number(rollout.reward)}")
    if rollout.advantage is not None:
        text.append(f", advantage {_number(rollout.advantage)}")
    text.append(f"{between}{len(rollout.token_ids)} tokens, {rollout.stop.value}")
    if rollout.verdict is not None and rollout.verdict.detail:
        text.append(between + _visible(rollout.verdict.detail), "dim")
    if rollout.replayed:
        text.append(f"{between}replayed: {_visible(rollout.context.exemplars[0])}", "dim")
    if rollout.unused:
        text.append(f"{between}unused: {_visible(rollout.unused)}", "dim")
    return text


def _number(value: float | None) -> str:
    return "—" if value is None else "NaN" if value != value else f"{value:.3g}"


def _visible(text: str, full: bool = False) -> str:
    r"""Return a text that is safe to print. A long text is cut unless ``full`` is True.

    >>> _visible("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\nc'
    >>> _visible("x" * 1000)[-24:]
    'xxxxx… (+600 characters)'
    """
    cut = text if full else text[:_LONGEST]
    safe = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in cut)
    return safe if len(cut) == len(text) else f"{safe}… (+{len(text) - _LONGEST:,} characters)"
