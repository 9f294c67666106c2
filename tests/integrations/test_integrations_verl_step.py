"""A step through verl's interfaces equals Outrider's own step on the same rollouts. None of this needs verl; what runs
inside verl's own classes is in ``test_integrations_verl_trainer.py``."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import verl_cases as cases

from outrider.errors import EngineLostError, UserError
from outrider.integrations.verl import policy_loss
from outrider.integrations.verl_config import recipe_text
from outrider.integrations.verl_data import TaskProblems
from outrider.integrations.verl_records import Records
from outrider.integrations.verl_sampler import VerlSampler, run_apart
from outrider.integrations.verl_step import StepMaker
from outrider.model.load import load_policy
from outrider.model.places import model_folder
from outrider.record import SampleRequest, StopReason
from outrider.runs.folder import RunFolder
from outrider.sample.stop import ends_of


@pytest.fixture(scope="module", params=cases.METHODS)
def local(request):
    return cases.local_step(cases.small(request.param))


@pytest.fixture(scope="module")
def grpo():
    return cases.local_step(cases.small("grpo"))


def maker(local, client=None) -> StepMaker:
    recipe = copy.deepcopy(local.recipe)
    policy = load_policy(recipe.model, recipe.policy, device=torch.device("meta"))
    return StepMaker(recipe, policy, VerlSampler(client or cases.Recorded(local.rollouts), policy, recipe.sample, 4096))


def verl_batch(made, width: int | None = None):
    """The tensors that verl's trainer makes of a step's rows."""
    width = width or max(len(row.token_ids) for row in made.rows)
    mask, rewards = torch.zeros(len(made.rows), width), torch.zeros(len(made.rows), width)
    for i, row in enumerate(made.rows):
        mask[i, : len(row.token_ids)] = torch.tensor(row.trainable_N).float()
        rewards[i, len(row.token_ids) - 1] = 0.0 if np.isnan(row.reward) else row.reward
    return {"token_level_rewards": rewards, "response_mask": mask, "index": np.array(made.uids, dtype=object)}


def test_the_same_is_drawn_verified_and_credited(local) -> None:
    client = cases.Recorded(local.rollouts)
    made = maker(local, client).make(1)
    assert len(client.asked) == len(set(client.asked)) == len(local.rollouts)
    for mine, theirs in zip(made.groups, local.groups, strict=True):
        assert mine.id == theirs.id
        for a, b in zip(mine.rollouts, theirs.rollouts, strict=True):
            told = ("id", "parent", "branch_at", "stream", "stage", "stop", "text", "reward", "success", "unused")
            assert [getattr(a, name) for name in told] == [getattr(b, name) for name in told]
            assert a.advantage == pytest.approx(b.advantage, abs=1e-12)
    for a, b in zip(made.rows, local.rows, strict=True):
        np.testing.assert_array_equal(a.context_ids, b.context_ids)
        np.testing.assert_array_equal(a.token_ids, b.token_ids)
        np.testing.assert_allclose(a.advantages_N, b.advantages_N, atol=1e-12)


def test_the_methods_do_what_they_are_here_for(local) -> None:
    """Or the comparisons would compare nothing: mixed groups, second waves, branches of failed chains with credit."""
    stages = {rollout.stage for rollout in local.rollouts}
    assert any(row.has_signal for row in local.rows)
    if local.recipe.name == "dars-hw":
        assert stages == {"0-uniform", "1-rebalance"}
        assert len({group.size for group in local.groups}) > 1
    if local.recipe.name == "deep-grpo":
        branches = [r for r in local.rollouts if r.parent]
        assert branches
        assert any(r.branch_at > 0 for r in branches)
        assert any(row.stream == "branch" and row.has_signal for row in local.rows)


def loss_of(made, advantages, local, cut: int):
    """The loss of a step as verl computes it: in micro-batches, added up; and its gradients."""
    surrogate = policy_loss(local.recipe.objective.surrogate)
    total, gradients = 0.0, {}
    for start in range(0, len(made.rows), cut):
        part = range(start, min(start + cut, len(made.rows)))
        shape = advantages[list(part)].shape
        mask, new, old, weights = (torch.zeros(shape, dtype=torch.float64) for _ in range(4))
        for place, i in enumerate(part):
            row, n = made.rows[i], len(made.rows[i].token_ids)
            mask[place, :n] = 1
            learner = cases.moved(row.token_ids, row.old_logprobs_N, 0.1, 1)
            old[place, :n] = torch.tensor(learner)
            new[place, :n] = torch.tensor(cases.moved(row.token_ids, row.old_logprobs_N, 0.3, 2))
            weights[place, :n] = torch.tensor(np.exp(learner - row.old_logprobs_N)).clamp(max=2.0)
        new.requires_grad_()
        loss = token_sum(surrogate, old, new, advantages[list(part)].double(), mask, weights)
        [gradient] = torch.autograd.grad(loss, new)
        total += loss.item()
        for place, i in enumerate(part):
            row = made.rows[i]
            key = (row.context_ids.tobytes(), row.token_ids.tobytes(), row.seed)
            gradients[key] = gradient[place, : len(row.token_ids)].numpy()
    return total, gradients


def token_sum(surrogate, old, new, advantages, mask, weights):
    """The loss with verl's ``token-sum``, which without verl is written out here."""
    import outrider.integrations.verl as module

    core = SimpleNamespace(agg_loss=lambda losses, mask, mode: (losses * mask).sum())
    real, module._core = module._core, lambda: core
    try:
        return surrogate(old, new, advantages, mask, "token-sum", None, weights)[0]
    finally:
        module._core = real


def test_credit_and_loss_are_those_of_the_whole_batch(local) -> None:
    """However verl cuts the rows, and whatever rows it adds to fill up."""
    step = maker(local)
    made = step.make(1)
    given = verl_batch(made)
    advantages, returns = step.advantages.estimator(**given, config=None)
    assert torch.equal(advantages, returns)
    assert not advantages[given["response_mask"] == 0].any()
    expected, expected_gradients = cases.local_loss(local)
    for cut in (len(made.rows), 7):
        found, gradients = loss_of(made, advantages, local, cut)
        assert found == pytest.approx(expected, abs=1e-6)
        assert gradients.keys() == expected_gradients.keys()
        for key, gradient in gradients.items():
            np.testing.assert_allclose(gradient, expected_gradients[key], atol=1e-6 * np.abs(gradient).max() + 1e-9)


@pytest.mark.parametrize("wrong", ["group", "stream", "all"])
def test_other_denominators_would_be_seen(local, wrong) -> None:
    """A hidden 1/G, one denominator for all streams, or rows without advantage that count: the loss is another one."""
    step = maker(local)
    made = step.make(1)
    advantages, _ = step.advantages.estimator(**verl_batch(made), config=None)
    sizes = {g.id: g.size for g in made.groups}
    mean = len(made.rows) / len(made.groups)
    tokens = {stream: sum(len(r.token_ids) for r in made.rows if r.stream == stream) for stream in ("main", "branch")}
    signal = {s: sum(len(r.token_ids) for r in made.rows if r.stream == s and r.has_signal) for s in tokens}
    for i, row in enumerate(made.rows):
        if wrong == "group":
            advantages[i] *= mean / sizes[row.group]
        elif wrong == "stream":
            advantages[i] *= tokens[row.stream] / sum(tokens.values())
        else:
            advantages[i] *= signal[row.stream] / tokens[row.stream]
    _, gradients = loss_of(made, advantages, local, 1000)
    _, expected = cases.local_loss(local)
    with_gradient = [key for key in gradients if expected[key].any()]
    apart = max(np.abs(gradients[key] / np.where(expected[key], expected[key], np.inf)).max() for key in with_gradient)
    least = min(
        np.abs(gradients[key][expected[key] != 0] / expected[key][expected[key] != 0]).min() for key in with_gradient
    )
    same = {"group": len(set(sizes.values())) == 1, "stream": not tokens["branch"], "all": False}[wrong]
    assert (max(apart, 1 / least) > 1.001) != same


def test_a_row_that_verl_loses_or_changes_ends_the_run(grpo) -> None:
    step = maker(grpo)
    given = verl_batch(step.make(1))
    estimator = step.advantages.estimator

    def without(i):
        kept = np.delete(np.arange(len(given["index"])), i)
        return {key: value[kept] for key, value in given.items()}

    with pytest.raises(UserError, match=r"has 48 rows and verl asks for 47: 1 missing, such as .*#3"):
        estimator(**without(3))
    with pytest.raises(UserError, match="asks for 49: 1 more than once"):
        estimator(**{**given, "index": np.array([given["index"][0], *given["index"]], dtype=object)})
    with pytest.raises(UserError, match="1 of another step, such as elsewhere"):
        estimator(**{**given, "index": np.array(["elsewhere", *given["index"]], dtype=object)})
    with pytest.raises(UserError, match="asks for 0: 48 missing"):  # no uid at all
        estimator(given["token_level_rewards"], given["response_mask"])
    step = maker(grpo)
    made, estimator = step.make(1), step.advantages.estimator
    for change, value, said in (
        ("response_mask", 0.0, "trained tokens should be"),
        ("token_level_rewards", 0.5, "the reward should be"),
    ):
        changed = verl_batch(made)
        changed[change][5] = value
        with pytest.raises(UserError, match=said):
            estimator(**changed)


def test_rows_that_fill_up_are_nothing(grpo) -> None:
    step = maker(grpo)
    given = verl_batch(step.make(1))
    one = {key: torch.cat([value, torch.zeros(2, value.shape[1])]) for key, value in given.items() if key != "index"}
    uids = np.array([*given["index"], "padab12", "padab12"], dtype=object)
    advantages, _ = step.advantages.estimator(**one, index=uids)
    assert not advantages[-2:].any()
    one["response_mask"][-1, 0] = 1
    with pytest.raises(UserError, match="row padab12: trained tokens should be 0"):
        step.advantages.estimator(**one, index=uids)


def test_what_a_server_may_not_do_ends_the_run(grpo) -> None:
    class Worse(cases.Recorded):
        change = staticmethod(lambda answer: None)

        async def generate(self, *arguments, **options):
            answer = await super().generate(*arguments, **options)
            self.change(answer)
            return answer

    def failing(change):
        client = Worse(grpo.rollouts)
        client.change = change
        return maker(grpo, client)

    for change, error, said in (
        (lambda a: setattr(a, "stop_reason", "aborted"), EngineLostError, "ended a response .* with 'aborted'"),
        (lambda a: setattr(a, "log_probs", None), UserError, "and 0 log-probabilities"),
        (lambda a: a.extra_fields.update(global_steps=7), UserError, "weights of version 7, and the step has 0"),
        (lambda a: a.extra_fields.clear(), UserError, "weights of version None"),
        (lambda a: 1 / 0, EngineLostError, "did not answer: ZeroDivisionError"),
    ):
        with pytest.raises(error, match=said):
            failing(change).make(1)


def test_steps_that_do_not_fit_are_refused(grpo) -> None:
    rows = grpo.rows
    step = maker(grpo)
    for given, said in (
        ([], "nothing to train on"),
        ([*rows, rows[0]], "has 49 rows, and verl's optimizer batch 48"),
        ([replace(rows[0], mode=rows[0].mode._replace(temperature=0.5))], "another temperature"),
    ):
        with pytest.raises(UserError, match=said):
            step._refuse_other_shape(given, 1)
    recipe = cases.small("grpo", "objective={kl: 0.04, aggregate: sequence_mean}")
    divided = maker(replace(grpo, recipe=recipe))
    with pytest.raises(UserError, match="has 47 rows"):  # verl would divide by 48
        divided._refuse_other_shape(rows[1:], 1)


def test_state_goes_on_where_it_was_saved(grpo) -> None:
    first, second = maker(grpo), maker(grpo)
    first.make(1)
    assert first.state_dict()["explorer"]["stream"] == {"position": 6}
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()


def test_work_is_done_within_a_running_loop_too() -> None:
    async def answer():
        return 42

    async def outer():
        return run_apart(answer())

    assert run_apart(outer()) == 42


def test_the_data_set_counts_steps_and_holds_problems_out(grpo) -> None:
    config = {"outrider": recipe_text(grpo.recipe)}
    assert len(TaskProblems("train", None, config)) == 4 * 6
    held_out = TaskProblems("heldout", None, config)
    assert [item["index"] for item in held_out] == [0, 1, 2, 3]
    with pytest.raises(UserError, match=r"not 'x\.parquet'"):
        TaskProblems("x.parquet", None, config)


def test_records_begin_anew_go_on_or_are_anothers(grpo, tmp_path) -> None:
    made = maker(grpo).make(1)

    def records(recipe=grpo.recipe) -> Records:
        return Records(tmp_path / "run", recipe)

    first = records()
    first.begin(0)
    first.write(1, made)
    first.close()
    for step, kept in ((1, [1]), (0, [])):  # after its checkpoint; killed before there was one
        again = records()
        again.begin(step)
        again.sync()
        again.close()
        assert RunFolder.existing(tmp_path / "run").rollouts.steps() == kept
    notices = (tmp_path / "run/notices.txt").read_text()
    assert "set aside what came after step -1" in notices
    with pytest.raises(UserError, match=r"started with other settings \(learn\.lr"):
        records(cases.small("grpo", "learn.lr=0.5")).begin(0)
    with pytest.raises(UserError, match="holds no run"):
        Records(tmp_path / "elsewhere", grpo.recipe).begin(3)


def test_what_ends_a_response_is_known_without_weights(tmp_path) -> None:
    """Chat models name further end tokens in generation_config.json alone."""
    shutil.copytree(model_folder("base:countdown"), tmp_path / "model")
    (tmp_path / "model/generation_config.json").write_text('{"eos_token_id": [2, 5]}')
    name = str(tmp_path / "model")
    whole, shape = load_policy(name), load_policy(name, device=torch.device("meta"))
    assert ends_of(shape).ids == ends_of(whole).ids == [2, 5]


def test_why_a_response_ended_is_found_in_its_tokens(grpo) -> None:
    recipe = cases.small("grpo", "sample.stop=['=']", "sample.max_tokens=5")
    step = maker(replace(grpo, recipe=recipe))
    [job] = step.sampler._requests.jobs([request_of(grpo)])
    equals = step.policy.tokenizer.convert_tokens_to_ids("=")
    for ids, expected in (
        ([4, 5, 2], StopReason.STOP),
        ([4, 5, 4, 5, 2], StopReason.STOP),  # at the limit as well
        ([4, equals], StopReason.TEXT),
        ([4, 5, 4, 5, equals], StopReason.TEXT),
        ([4, 5, 4, 5, 4], StopReason.LENGTH),
    ):
        assert step.sampler._stop(job, ids) is expected, ids


def request_of(local) -> SampleRequest:
    rollout, group = local.rollouts[0], local.groups[0]
    return SampleRequest(group.problem, prompt_ids=rollout.prompt_ids, group_id=group.id)
