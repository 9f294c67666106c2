"""What trackers are sent of a run, when, and what happens where one fails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_run import SMALL

from outrider.cli import main
from outrider.config.tracking import TrackingOptions
from outrider.measure import Tally
from outrider.measure.evaluation import of_tallies
from outrider.record import Context, Group, Outcome, Problem, Rollout, Verdict
from outrider.runs.folder import RunFolder
from outrider.screen.run_trackers import FINDINGS, ROLLOUTS, RunTrackers
from outrider.screen.tracked_rollouts import LONGEST, chosen_rollouts, rollouts_table
from outrider.screen.tracker import TrackedTable
from outrider.screen.trackers import open_trackers


def member(problem: str, k: int, reward: float | None, **changes: object) -> Rollout:
    ids = np.array([1, 2, 3], np.int32)
    good = reward is not None and reward > 0
    made = Rollout(problem, f"train:1:{problem}", k, ids, ids, np.zeros(3, np.float32), ids[:0], text=f"{problem}{k}")
    verdict = Verdict(Outcome.CORRECT if good else Outcome.INCORRECT, float(good))
    return replace(made, verdict=verdict, reward=reward, **changes)


def group(problem: str, rewards: list[float | None]) -> Group:
    made = Problem(problem, f"what is {problem}?")
    return Group(made, f"train:1:{problem}", tuple(member(problem, k, r) for k, r in enumerate(rewards)))


class Kept:
    """A tracker that keeps what it gets, and raises where it is told to."""

    def __init__(self, fails_at: int | None = None, error: Exception | None = None) -> None:
        self.got: list[tuple[str, int, object]] = []
        self.fails_at, self.error = fails_at, error
        self.closed = 0

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        if step == self.fails_at:
            raise self.error or OSError("no route to host\nand more")
        self.got.append(("metrics", step, dict(metrics)))

    def table(self, step: int, name: str, table: TrackedTable) -> None:
        self.got.append((name, step, table))

    def close(self) -> None:
        self.closed += 1


def test_mixed_groups_come_first_and_whole_and_the_last_is_cut_to_its_best_and_worst() -> None:
    groups = [
        group("a", [0, 0, 0]),
        group("b", [1, 0, 1]),
        group("c", [0, 1, 0.5, math.nan, 0, 1]),
        group("d", [1, 1]),
    ]
    shown = [rollout.text for _, rollout in chosen_rollouts(groups, 7)]
    # of c the two best (1 at members 1 and 5) and the two worst: the unscorable one, and the last of those with 0
    assert shown == ["b0", "b1", "b2", "c1", "c3", "c4", "c5"]
    assert [rollout.text for _, rollout in chosen_rollouts(groups, 4)] == ["b0", "b1", "b2", "c1"]
    everything = [rollout.text[0] for _, rollout in chosen_rollouts(groups, 99)]
    assert "".join(everything) == "bbbccccccaaadd"
    assert chosen_rollouts(groups, 0) == [] == chosen_rollouts([], 5)


def test_a_replayed_rollout_is_in_no_table() -> None:
    replayed = replace(member("a", 1, 1.0), context=Context("replayed", ("train:0:a/0",)))
    made = Group(Problem("a", "p"), "train:1:a", (member("a", 0, 0.0), replayed))
    assert [rollout.member for _, rollout in chosen_rollouts([made], 5)] == [0]


def test_a_row_has_the_whole_response_its_verdict_and_the_mean_entropy_of_sampled_tokens() -> None:
    entropies = np.array([1.0, 50.0, 2.0], np.float32)
    sampled = np.array([True, False, True])
    branch = member("a", 0, 0.25, prefix_text="so ", advantage=-1.0, entropies_T=entropies, trainable_T=sampled)
    bare = member("a", 1, None, text="x" * (LONGEST + 7) + "\ud800")
    made = Group(Problem("a", "2+2?"), "train:1:a", (branch, replace(bare, verdict=None)))
    first, second = rollouts_table(3, [made], 9).rows
    assert first == (3, "a", "2+2?", "so a0", "correct", 0.25, -1.0, 2, 1.5)
    assert second[4:] == (None, None, None, 3, None)
    assert second[3] == "x" * LONGEST + "… (+8 characters)"


def test_metrics_go_out_each_step_and_rollouts_from_the_first_step_on_each_nth() -> None:
    tracker = Kept()
    sent = RunTrackers({"kept": tracker}, TrackingOptions(rollouts=2, rollouts_every=3), pytest.fail)
    for step in range(1, 6):
        sent.stepped(step, [group("a", [0, 1])], {"reward": 0.5})
    sent.ended(5, lambda: TrackedTable(("finding",), [("none",)]))
    sent.close()
    sent.close()
    kinds = [(name, step) for name, step, _ in tracker.got]
    metrics = [("metrics", step) for step in range(1, 6)]
    assert kinds == [metrics[0], (ROLLOUTS, 1), *metrics[1:4], (ROLLOUTS, 4), metrics[4], (FINDINGS, 5)]
    assert tracker.closed == 1
    assert len(tracker.got[1][2].rows) == 2  # type: ignore[attr-defined]


def test_no_rollouts_are_sent_where_none_are_wanted_or_there_are_none() -> None:
    tracker = Kept()
    sent = RunTrackers({"kept": tracker}, TrackingOptions(rollouts=0, rollouts_every=1), pytest.fail)
    sent.stepped(1, [group("a", [0, 1])], {})
    RunTrackers({"kept": tracker}, TrackingOptions(), pytest.fail).stepped(1, [], {})
    assert [name for name, _, _ in tracker.got] == ["metrics", "metrics"]


def test_a_tracker_that_fails_is_given_up_said_once_and_ends_nothing() -> None:
    broken, whole, said = Kept(fails_at=2), Kept(), list[str]()
    sent = RunTrackers({"wandb": broken, "trackio": whole}, TrackingOptions(rollouts_every=1), said.append)
    for step in range(1, 4):
        sent.stepped(step, [group("a", [0, 1])], {})
    sent.ended(3, lambda: TrackedTable(("finding",), [("none",)]))
    sent.close()
    assert said == [
        "warning: tracker 'wandb' failed and is stopped (OSError: no route to host); "
        "the run continues, and its folder has all data"
    ]
    assert [step for _, step, _ in broken.got] == [1, 1]
    assert [step for _, step, _ in whole.got] == [1, 1, 2, 2, 3, 3, 3]
    assert (broken.closed, whole.closed) == (0, 1)


def test_a_run_that_cannot_be_examined_is_said_and_closes_as_ever() -> None:
    tracker, said = Kept(), list[str]()
    sent = RunTrackers({"kept": tracker}, TrackingOptions(), said.append)

    def fails() -> TrackedTable:
        raise ValueError("odd")

    sent.ended(1, fails)
    assert said == ["warning: trackers get no findings, because the run cannot be checked: ValueError: odd"]
    RunTrackers({}, TrackingOptions(), pytest.fail).ended(1, fails)  # without a tracker nothing is examined


def test_ctrl_c_in_a_tracker_ends_the_run_all_the_same() -> None:
    class Interrupted(Kept):
        def log(self, step: int, metrics: Mapping[str, float]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RunTrackers({"kept": Interrupted()}, TrackingOptions(), pytest.fail).stepped(1, [], {})


def tables(run: Path) -> dict[tuple[str, int], list[list[str]]]:
    """What TensorBoard's page of texts shows, by name and step."""
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.context import RequestContext

    events = EventMultiplexer(tensor_size_guidance={"text": 0})
    events.AddRunsFromDirectory(str(run))
    events.Reload()
    pages = MultiplexerDataProvider(events, str(run))
    shown = pages.read_tensors(RequestContext(), experiment_id="", plugin_name="text", downsample=99)
    return {
        (tag, one.step): [[cell.decode() for cell in row] for row in one.numpy]
        for tag, found in shown["tensorboard"].items()
        for one in found
    }


def test_tensorboard_shows_the_text_of_a_policy_and_never_its_markup(tmp_path: Path) -> None:
    from tensorboard.plugins.text.text_plugin import text_array_to_html

    hostile = "</td><script>alert(1)</script>\n# [a](javascript:alert)\n```\n*b*"
    (tracker,) = open_trackers(["tensorboard"], tmp_path, {})
    tracker.table(1, ROLLOUTS, TrackedTable(("response", "reward"), [(hostile, 0.25), ("", None)]))
    tracker.close()
    cells = np.array(tables(tmp_path)[ROLLOUTS, 1], dtype=object)
    page = text_array_to_html(cells, enable_markdown=True)
    assert cells[1:, 1].tolist() == ["    0.25", ""]
    for mark in ("<script", "<h1", "<a ", "<em"):
        assert mark not in page
    for text in ("&lt;script&gt;alert(1)", "# [a](javascript:alert)", "```", "*b*", "<strong>response</strong>"):
        assert text in page


def test_a_training_sends_tensorboard_rollouts_and_at_its_end_the_findings(tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = [*SMALL, "train.trackers=[tensorboard]", "train.steps=3", "train.tracking={rollouts: 5, rollouts_every: 2}"]
    few += ["train.tracking.project=sums", "evaluate.before=false", "evaluate.after=false"]
    assert main(["train", "grpo", *few, "--out", str(run)]) == 0
    made = tables(run)
    assert set(made) == {(ROLLOUTS, 1), (ROLLOUTS, 3), (FINDINGS, 3)}
    assert len(made[ROLLOUTS, 1]) == 1 + 5
    assert made[FINDINGS, 3][0] == ["**finding**", "**severity**", "**sentence**"]
    assert "checks found no problem" in made[FINDINGS, 3][1][2]
    sentence = "warning: tracker 'tensorboard' has no project: train.tracking.project changes nothing there"
    assert sentence in (run / "notices.txt").read_text().splitlines()


def test_wandb_keeps_names_metrics_and_tables_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    named = TrackingOptions(project="sums", entity="me", tags=["small"], name="first")
    (tracker,) = open_trackers(["wandb"], tmp_path, {"seed": 3}, 0, named)
    client = tracker._run  # type: ignore[attr-defined]
    assert (client.project, client.entity, client.tags, client.name) == ("sums", "me", ("small",), "first")
    assert client.group == tmp_path.name
    tracker.log(1, {"reward": 0.5})
    tracker.table(1, ROLLOUTS, TrackedTable(("response", "advantage"), [("a", None), ("b", 0.5)]))
    tracker.close()
    (file,) = tmp_path.glob("wandb/offline-run-*/files/media/table/tables/rollouts_1_*.table.json")
    assert '"data":[["a",null],["b",0.5]]' in file.read_text().replace(" ", "")


def test_trackio_keeps_names_metrics_and_tables_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    folder = tmp_path / "trackio"
    for module in ("utils", "sqlite_storage"):  # which read TRACKIO_DIR when they are imported
        monkeypatch.setattr(f"trackio.{module}.TRACKIO_DIR", folder)
    run = tmp_path / "run"
    (tracker,) = open_trackers(["trackio"], run, {"seed": 3}, 7, TrackingOptions(project="sums"))
    tracker.log(8, {"reward": 0.5})
    tracker.table(8, ROLLOUTS, TrackedTable(("response", "advantage"), [("a", None)]))
    tracker.close()
    logs = SQLiteStorage.get_logs("sums", "run from step 7")
    assert [log["step"] for log in logs] == [8, 8]
    assert logs[0]["reward"] == 0.5
    assert logs[1][ROLLOUTS]["_value"] == [{"response": "a", "advantage": None}]


def test_an_evaluation_is_sent_at_its_step_and_what_is_undefined_is_not() -> None:
    """Two of three samples are correct, and there is no greedy response."""
    zeros = dict.fromkeys(("truncated", "unparseable", "timeouts", "errors", "greedy_tokens"), 0)
    tally = Tally("p", "", 3, scorable=3, successes=2, votes=3, majority=1.0, greedy=math.nan, tokens=9,
                  entropy_sum=4.5, entropy_tokens=9, **zeros)  # fmt: skip
    tracker = Kept()
    RunTrackers({"kept": tracker}, TrackingOptions(), pytest.fail).evaluated(7, of_tallies([tally], resamples=0))
    sent = {"pass@1": 2 / 3, "pass@2": 1.0, "pass@3": 1.0, "majority": 1.0, "entropy": 0.5, "truncated": 0.0}
    assert tracker.got == [("metrics", 7, {f"evaluate/{name}": pytest.approx(value) for name, value in sent.items()})]


def test_a_training_sends_tensorboard_its_evaluations(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    few = [*SMALL, "train.trackers=[tensorboard]", "train.steps=1", "evaluate.before=true", "evaluate.after=true"]
    assert main(["train", "grpo", *few, "--out", str(run)]) == 0
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    kept = {step: found["overall"]["pass_at"]["1"]["value"] for step, found in RunFolder(run).evaluations().items()}
    assert {e.step: e.value for e in events.Scalars("evaluate/pass@1")} == pytest.approx(kept)
    assert list(kept) == [0, 1]
