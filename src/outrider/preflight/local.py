"""Checks a task and a model for a dry run, without downloading files or starting environments, and reports the checks
that it skipped."""

from __future__ import annotations

from importlib.util import find_spec

from outrider.model.made_base import made_base
from outrider.model.options import PolicyOptions
from outrider.model.places import local_config, looks_local, model_folder
from outrider.preflight.check import Preflight, Wanted, preflight
from outrider.tasks import Suite, Table
from outrider.tasks.task import Task
from outrider.tasks.turn_task import TurnTask
from outrider.tasks.verifiers import Verifiers


def checked_here(task: Task, wanted: Wanted, model: str, policy: PolicyOptions) -> Preflight:
    """Return the errors that can be found from local files alone, with a notice for each skipped check."""
    unread = _not_read(task)
    why = _without_tokenizer(model)
    notices = [f"not checked: prompts, since {why}"] if why else []
    if unread:
        return Preflight([], [*notices, f"not checked: the task's problems, since {unread}"], skipped=True)
    try:
        found = preflight(task, wanted, None if why else model, policy)
    finally:
        task.close()
    return found._replace(notices=[*notices, *found.notices], skipped=bool(why))


def _without_tokenizer(model: str) -> str:
    """Return the reason why a dry run does not read a model's tokenizer; empty if it does."""
    if find_spec("torch") is None:
        return "torch is not installed"
    base = made_base(model)
    if base is not None and not base.made:
        return f"the model {model} is trained on first use"
    here = looks_local(model_folder(model)) or local_config(model) is not None
    return "" if here else f"the model {model} is not on this machine"


def _not_read(task: Task) -> str:
    """Return the reason why a dry run does not read a task's problems; empty if it does."""
    inner = task.table if isinstance(task, TurnTask) else task
    if isinstance(inner, Table):
        remote = [place for place in (inner.train_data, inner.heldout_data) if place and place.startswith("hf:")]
        return f"a dry run does not download {remote[0]}" if remote else ""
    if isinstance(inner, Suite) and inner.data is None:
        return f"a dry run does not download the sets of the suite {inner.suite!r}"
    return "a dry run does not start environments" if isinstance(inner, Verifiers) else ""
