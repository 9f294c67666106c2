"""Reads the results of ``outrider analyse`` in a run's folder, for the sections that show these results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from outrider.analyse.selection import spread
from outrider.arrays import Floats, Ints
from outrider.measure.categories import Lexicon
from outrider.measure.groups import Label, Mean, Profile, means_by_group
from outrider.report.content import Figure, Section, Series, TableBlock
from outrider.report.data import Columns, RunData

OUTCOMES = ("not correct", "correct")
PLACES = 20  # number of parts into which a response is divided by position
_MOST_PARTS = 128  # maximum number of files that are read, with 16,384 tokens per file
_CATEGORISED = 2000  # maximum number of responses whose tokens are categorised
_RESAMPLES = 200
_KEYS = ("step", "group_id", "member")


@dataclass(frozen=True, eq=False)
class Analysed:
    """The rows of an analysis by ``outrider analyse``. There is one row per token of a response. The analysis
    ``intervene``, which replaces tokens, has one row per replaced token.

    Attributes:
        about: settings of the analysis.
        rows: the table's columns, keyed by name, with rows in the order of the rollouts; null becomes NaN.
        owners_T: index of each row's response, counted from 0.
        success_R: success of each response: 1, 0, or NaN if it was not verified.
        problems_R: index of each response's problem.
        words: text of every token id; empty if the vocabulary cannot be read.
    """

    about: dict[str, Any]
    rows: Columns
    owners_T: Ints
    success_R: Floats
    problems_R: Ints
    words: list[str]

    @property
    def outcome_T(self) -> Ints:
        """The index in ``OUTCOMES`` of each row's outcome; -1 if the response was not verified."""
        return np.nan_to_num(self.success_R[self.owners_T], nan=-1).astype(np.int64)

    @property
    def source(self) -> str:
        """A description of the analysed rollouts, for use in a note."""
        first, last = int(self.rows["step"].min()), int(self.rows["step"].max())
        steps = f"step {first}" if first == last else f"steps {first:,} to {last:,}"
        return f"{len(self.success_R):,} responses of {steps}, split {self.about.get('split', 'train')}"

    def means(self, values_T: NDArray[Any], groups_T: Ints, labels: Sequence[Label]) -> Profile:
        """Return means by group, with 95 % intervals from a bootstrap over problems."""
        return self.over_problems(means_by_group(values_T, groups_T, self.owners_T, labels))

    def over_problems(self, profile: Profile, resamples: int = _RESAMPLES) -> Profile:
        """Return the profile with intervals from a bootstrap over problems, since responses to one problem are
        correlated."""
        return profile.over_problems(self.problems_R, resamples)

    def along(self, values_T: NDArray[Any], kinds_T: Ints, names: Sequence[str]) -> list[Series]:
        """Return means by relative position in the response, with one series for each kind of token that occurs."""
        places_T = self.rows["position"].astype(np.int64) * PLACES // np.maximum(self.rows["length"], 1)
        middles = [(i + 0.5) / PLACES for i in range(PLACES)]
        results = []
        for kind, name in enumerate(names):
            profile = self.means(values_T, np.where(kinds_T == kind, places_T, -1), middles)
            if any(mean.n for mean in profile.means):
                results.append(mean_series(name, middles, profile.means))
        return results

    def categories(self) -> tuple[Ints, tuple[str, ...]]:
        """Return each token's category in the built-in lexicon, and the names of the categories. Only the first
        ``_CATEGORISED`` responses are categorised; tokens of later responses get -1."""
        lexicon = Lexicon.load()
        kinds_T = np.full(len(self.owners_T), -1, dtype=np.int64)
        ends = np.cumsum(np.bincount(self.owners_T)).tolist()[:_CATEGORISED] if self.words else []
        for start, end in zip([0, *ends], ends, strict=False):
            ids = self.rows["token_id"][start:end].tolist()
            kinds_T[start:end] = lexicon.categorise_token_texts([self.words[i] for i in ids])
        return kinds_T, tuple(name.replace("_", " ") for name in lexicon.names)


Show = Callable[[Analysed], tuple[list[Figure], list[TableBlock]]]


def analysis_section(
    run: RunData, kind: str, title: str, text: str, columns: Sequence[str], show: Show
) -> Section | None:
    """Return the section of one analysis in the run's folder; None if the analysis was never started.

    If an analysis has very many files, only an evenly spaced selection of them is read.
    """
    result = read_analysis(run, kind, columns, _MOST_PARTS)
    if result is None:
        return None
    one, sentences = result
    figures, tables = ([], []) if one is None else show(one)
    return Section(f"analysis-{kind}", title, " ".join([text, *sentences]), figures, tables)


def read_analysis(
    run: RunData, kind: str, columns: Sequence[str], most: int | None = None
) -> tuple[Analysed | None, list[str]] | None:
    """Return the rows of an analysis in the run's folder, and sentences on missing parts; None if there is no analysis.

    At most ``most`` parts (files) are read. A damaged part is skipped, and a sentence about it is added to the run's
    ``notices``. If no part is readable, the rows are None.
    """
    folder = None if run.folder is None else run.folder / "analysis" / kind
    if folder is None or not folder.is_dir():
        return None
    broken: list[str] = []
    about = _about(folder, broken)
    table, sentences = _read(folder, about, columns, most, broken)
    run.notices.extend(broken)
    words = _words(folder) if "token_id" in columns else []
    return None if table is None else _verified(run, about, table, words), [*sentences, *broken]


def mean_series(name: str, x: Sequence[Label], means: Sequence[Mean], rows: str = "tokens") -> Series:
    """Return means with intervals as a series. The tooltip of a mean shows the number of rows from which it was
    computed."""
    low, high = [m.low for m in means], [m.high for m in means]
    return Series(name, list(x), [m.value for m in means], low, high, [f"{m.n:,} {rows}" for m in means])


def interval(mean: Mean) -> str | None:
    """Format the interval of a mean for a table cell; None if the mean has no interval.

    >>> interval(Mean(0.5, 0.25, 0.75, 9, 3))
    '0.250 … 0.750'
    """
    return None if np.isnan(mean.low) else f"{mean.low:#.3g} … {mean.high:#.3g}"


def _about(folder: Path, broken: list[str]) -> dict[str, Any]:
    """Read the settings of an analysis. If this fails, add a sentence to ``broken`` and return an empty list of files
    (``parts``)."""
    file = folder / "about.json"
    if not file.exists():  # the command has only just started
        return {"parts": []}
    try:
        about = json.loads(file.read_bytes())
        if isinstance(about["parts"], list) and all(isinstance(name, str) for name in about["parts"]):
            return dict(about)
    except (OSError, ValueError, TypeError, KeyError):
        pass
    broken.append(f"{folder} was skipped: {file.name} is damaged or has no list of parts.")
    return {"parts": []}


def _read(
    folder: Path, about: dict[str, Any], columns: Sequence[str], most: int | None, broken: list[str]
) -> tuple[pa.Table | None, list[str]]:
    """Return the rows of the readable parts (None if there is no readable part), and sentences on missing parts."""
    names = about["parts"]
    there = [path for name in names if (path := folder / "parts" / f"{name}.parquet").is_file()]
    sentences = []
    if not names and not broken:
        sentences.append(f"`{folder}` has only begun: no part is written yet.")
    elif len(there) < len(names):
        sentences.append(f"`{folder}` is not finished: {len(there):,} of {len(names):,} parts are written.")
    if most is not None and len(there) > most:
        sentences.append(f"{most} of {len(there):,} parts are read, evenly spaced.")
        there = spread(there, most)
    tables = [table for path in there if (table := _part(path, columns, broken)) is not None and len(table)]
    return (pa.concat_tables(tables, promote_options="default") if tables else None), sentences


def _part(path: Path, columns: Sequence[str], broken: list[str]) -> pa.Table | None:
    needed = (*_KEYS, *columns)
    try:
        there = pq.read_schema(path).names
        if missing := [name for name in needed if name not in there]:
            broken.append(f"{path} was skipped: it has no column {missing[0]}.")
            return None
        return pq.read_table(path, columns=[n for n in there if n in needed or n.startswith("branching_")])
    except (pa.ArrowException, OSError) as error:
        broken.append(f"{path} was skipped: it is damaged ({str(error).splitlines()[0][:120]}).")
        return None


def _words(folder: Path) -> list[str]:
    try:
        texts = pq.read_table(folder / "vocabulary.parquet", columns=["text"])["text"]
        return [text or "" for text in texts.to_pylist()]
    except (pa.ArrowException, OSError):
        return []


def _verified(run: RunData, about: dict[str, Any], table: pa.Table, words: list[str]) -> Analysed:
    """Assign the rows to their responses, and look up each response's verdict and problem in the run."""
    # integer codes instead of group ids, which are repeated for every token
    texts = table["group_id"].combine_chunks().dictionary_encode()
    codes_T, groups = texts.indices.to_numpy(zero_copy_only=False), texts.dictionary.to_pylist()
    rows = {n: table[n].to_numpy() for n in table.column_names if n != "group_id"}
    new_T = np.ones(len(codes_T), dtype=bool)
    new_T[1:] = (np.diff(codes_T) != 0) | (np.diff(rows["member"]) != 0) | (np.diff(rows["step"]) != 0)
    first_R = np.flatnonzero(new_T)
    known = run.query(
        f"SELECT step, group_id, member, problem_id, (outcome = 'correct')::INT AS success "
        f"FROM {'gathered' if run.has('gathered') else 'rollouts'} "
        "WHERE split = ? AND step IN (SELECT unnest(?))",
        [about.get("split", "train"), np.unique(rows["step"]).tolist()],
    )
    success, problem_of = {}, {}
    for step, group, member, problem, verified in zip(*(c.tolist() for c in known.values()), strict=True):
        # also keyed by step, since all evaluations of a run have the same group ids
        success[step, group, member], problem_of[group] = verified, problem
    groups_R = [groups[code] for code in codes_T[first_R].tolist()]
    steps_R, members_R = (rows[name][first_R].tolist() for name in ("step", "member"))
    keys = zip(steps_R, groups_R, members_R, strict=True)
    success_R = np.array([success.get(key, np.nan) for key in keys], dtype=np.float64)
    problem_R = [problem_of.get(group, group) for group in groups_R]
    problems_R = np.unique(np.asarray(problem_R, dtype=str), return_inverse=True)[1].astype(np.int64)
    # a vocabulary that is too short belongs to another tokenizer, so show no words instead of wrong words
    words = words if words and len(words) > int(rows["token_id"].max()) else []
    return Analysed(about, rows, np.cumsum(new_T) - 1, success_R, problems_R, words)
