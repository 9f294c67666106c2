"""A filter of the viewer, as SQL and as an address, against a plain loop over the rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_rows import random_rows
from viewing import plain_run

from outrider.errors import UserError
from outrider.view.listing import listing, selected
from outrider.view.opened_run import OpenedRun
from outrider.view.rollout_filter import EXACT, PAGE, RANGES, SORTS, RolloutFilter

ROWS = random_rows(3, steps=12)
NUMBERS = ("step", "tokens", "reward", "advantage", "entropy", "logprob")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> OpenedRun:
    return OpenedRun(plain_run(tmp_path_factory.mktemp("plain"), ROWS))


def values_of(name: str) -> list[str]:
    return sorted({str(row[EXACT[name]] or "none") for row in ROWS})


FILTERS = {
    **{name: st.sampled_from(values_of(name)) for name in ("split", "problem", "level", "verdict", "stage", "context")},
    **{
        name: st.tuples(st.none() | st.integers(-2, 30), st.none() | st.integers(-2, 30))
        .filter(any)
        .map(lambda ends: "..".join("" if end is None else str(end) for end in ends))
        for name in NUMBERS
    },
    "text": st.sampled_from(["a", "AB", "bb", "zz", "c"]),
    "used": st.sampled_from(["yes", "no"]),
}


def matches(row: dict[str, Any], asked: dict[str, str]) -> bool:
    for name, value in asked.items():
        if name == "text":
            fits = value in (row["text"] or "")
        elif name == "used":
            fits = (row["unused"] == "") == (value == "yes")
        elif name in EXACT:
            fits = str(row[EXACT[name]] or "none") == value
        else:
            low, _, high = value.partition("..")
            number = row[RANGES[name]]
            fits = (
                number is not None
                and not math.isnan(number)
                and (not low or number >= int(low))
                and (not high or number <= int(high))
            )
        if not fits:
            return False
    return True


@given(asked=st.fixed_dictionaries({}, optional=FILTERS))
def test_a_filter_keeps_what_a_loop_keeps(run: OpenedRun, asked: dict[str, str]) -> None:
    source, values, _ = selected(run, RolloutFilter.of(asked), patience=None)
    found = run.rows(f"SELECT step, group_id, member FROM {source}", values)
    kept = [row for row in ROWS if matches(row, asked)]
    assert sorted(map(str, found)) == sorted(
        str({"step": row["step"], "group_id": row["group_id"], "member": row["member"]}) for row in kept
    )


@given(asked=st.fixed_dictionaries({}, optional=FILTERS), sort=st.sampled_from(["", "-entropy", "tokens"]))
def test_an_address_holds_the_whole_filter(asked: dict[str, str], sort: str) -> None:
    chosen = RolloutFilter.of(asked | ({"sort": sort} if sort else {}) | {"page": "3"})
    assert RolloutFilter.of(dict(parse_qsl(chosen.address()))) == chosen


@pytest.mark.parametrize("name", [*SORTS, *(f"-{name}" for name in SORTS)])
def test_pages_hold_every_rollout_once_and_in_order(run: OpenedRun, name: str) -> None:
    chosen = RolloutFilter.of({"sort": name})
    first = listing(run, chosen)
    pages = [listing(run, RolloutFilter.of({"sort": name, "page": str(page + 1)})).rows for page in range(first.pages)]
    rows = [row for page in pages for row in page]
    assert first.total == len(ROWS) == len(rows) == len({(row["group_id"], row["member"]) for row in rows})
    assert all(len(page) <= PAGE for page in pages)
    column = (EXACT | RANGES | {"member": "member"})[name.removeprefix("-")]
    known = [row[column] for row in rows if row[column] is not None and row[column] == row[column]]
    assert known == sorted(known, reverse=name.startswith("-"))


def test_counts_are_those_of_all_pages(run: OpenedRun) -> None:
    found = listing(run, RolloutFilter.of({"step": "..6"}))
    rows = [row for row in ROWS if row["step"] <= 6]
    assert found.total == len(rows)
    assert found.correct == sum(row["outcome"] == "correct" for row in rows)
    assert found.verified == sum(row["outcome"] is not None for row in rows)
    assert found.tokens == sum(row["tokens"] for row in rows)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"verdct": "correct"}, "there is no filter 'verdct'; did you mean 'verdict'?"),
        ({"step": "ten"}, "step is 'ten', but should be a number or a range such as 10..20"),
        ({"step": "1..x"}, "step is '1..x', but should be a number or a range"),
        ({"sort": "-entrpy"}, "sort is '-entrpy'; did you mean 'entropy'?"),
        ({"used": "perhaps"}, "used is 'perhaps', but should be yes or no"),
        ({"page": "0"}, "page is '0', but should be a number from 1"),
        ({"page": "²"}, "page is '²', but should be a number from 1"),
    ],
)
def test_a_wrong_filter_is_refused(asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        RolloutFilter.of(asked)
    assert sentence in str(error.value)


def test_a_filter_is_no_sql(run: OpenedRun) -> None:
    for value in ("x' OR '1'='1", "'; DROP TABLE seen; --"):
        for name in ("problem", "verdict", "text"):
            assert listing(run, RolloutFilter.of({name: value})).total == 0
    assert run.count() == len(ROWS)
    assert Path(run.path).exists()


def test_what_is_no_number_is_in_no_range_and_ranks_last(run: OpenedRun) -> None:
    """The reward of a verifier that failed is NaN, which DuckDB takes for the largest number."""
    assert any(row["reward"] is not None and math.isnan(row["reward"]) for row in ROWS)
    found = listing(run, RolloutFilter.of({"reward": "0.5.."}))
    assert found.total == sum(row["reward"] is not None and row["reward"] >= 0.5 for row in ROWS)
    ranked = listing(run, RolloutFilter.of({"sort": "-reward"})).rows
    assert ranked[0]["reward"] == 1.0
