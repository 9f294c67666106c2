"""``outrider analyse intervene``, which replaces tokens with alternatives and measures the change in success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outrider.analyse.arguments import Intervene
from outrider.analyse.folder import AnalysisFolder, compute_parts
from outrider.analyse.forward import token_values
from outrider.analyse.policies import open_policy, refuse_foreign, vocabulary
from outrider.analyse.problems import problems_of
from outrider.analyse.selection import AnalysisPlan, WorkUnit, intervention_parts
from outrider.analyse.sites import KEPT, REPLACED, ContinuationCounts, Site, chosen_positions, site_table
from outrider.analyse.tokens_command import about_of, print_line, print_place, processes
from outrider.errors import UserError
from outrider.interrupts import SAME_COMMAND
from outrider.measure.intervention import effects
from outrider.model.load import Policy, context_length
from outrider.processes.launch import launch
from outrider.processes.ranks import Ranks
from outrider.record import Ids, Outcome, Prefix, Problem, Rollout, SampleRequest, Verdict
from outrider.runs.checkpoint import weights_hash
from outrider.sample.local import LocalSampler, stops_of
from outrider.sample.requests import decode
from outrider.sample.sampler import Sampler
from outrider.tasks.task import Task, verify_all
from outrider.tasks.turn_task import TurnTask


class Interventions:
    r"""Samples continuations of responses after a kept or replaced token, and counts how many are correct.

    For a token :math:`o_t` in a response to the prompt :math:`q`, the best alternative is

    .. math:: \tilde o_t = \arg\max_{v \ne o_t} \pi(v \mid q, o_{<t}),

    The policy samples ``k`` independent continuations after :math:`o_{<t}, o_t` and ``k`` after :math:`o_{<t}, \tilde
    o_t`. Each continuation is verified together with the preceding tokens. The effect :math:`I_t` of the token is the
    mean accuracy with the kept token minus the mean accuracy with its replacement. :mod:`outrider.measure.intervention`
    estimates :math:`I_t` from the counts.

    If the token ends the response or is at the length limit, no continuation is sampled. The response up to this token
    is then verified once, and the result is counted ``k`` times. A continuation depends only on the seed, the rollout,
    the position, the token (kept or replaced) and the continuation's index. A larger ``k`` therefore only adds
    continuations; the first ones do not change.

    Source: STILL report, arXiv 2508.07534, Eqs. 5 and 6.
    """

    def __init__(self, policy: Policy, sampler: Sampler, task: Task, options: Intervene) -> None:
        self.policy, self.sampler, self.task, self.options = policy, sampler, task, options
        self.stops = stops_of(policy, options.sample.stop)
        self.context = context_length(policy.model)

    def sites(self, rollouts: Sequence[Rollout]) -> list[Site]:
        """Choose the tokens to replace in all responses, and return them in the order of the responses."""
        every = token_values(self.policy, rollouts, micro_tokens=self.options.micro_tokens)
        return [
            Site(rollout, at, values)
            for rollout, values in zip(rollouts, every, strict=True)
            for at in chosen_positions(rollout, values.entropies, self.options)
        ]

    def count_continuations(
        self, sites: Sequence[Site], problems: Mapping[str, Problem], branch: str
    ) -> list[ContinuationCounts]:
        """At each chosen position, sample ``k`` continuations and verify them. Return the counts of results.

        Args:
            branch: whether the continuations follow the original token (``KEPT``) or its most likely alternative
                (``REPLACED``).
        """
        paths = [site.path(branch) for site in sites]
        going = [self._goes_on(site, path) for site, path in zip(sites, paths, strict=True)]
        every = list(zip(sites, paths, going, strict=True))
        drawn = iter(self.sampler.sample([self._request(s, p, problems, branch) for s, p, goes in every if goes]))
        endings = [[next(drawn) for _ in range(self.options.k)] if goes else [] for goes in going]
        end = self.policy.prompt_end
        items: list[tuple[Problem, str, bool]] = []
        for (site, path, _), ending in zip(every, endings, strict=True):
            # decode the whole response at once, since a character may span two tokens
            texts = decode(self.policy.tokenizer, [r.response_ids for r in ending] or [path])
            finished = [not r.truncated for r in ending] or [self.stops.ends(path)]
            problem = problems[site.rollout.problem_id]
            asked = problem if end is None else problem.prompted(end)
            items += [(asked, *item) for item in zip(texts, finished, strict=True)]
        verdicts = iter(verify_all(self.task, items))
        return [self._counts(ending, [next(verdicts) for _ in range(len(ending) or 1)]) for ending in endings]

    def _goes_on(self, site: Site, path: Ids) -> bool:
        room = min(self.options.sample.max_tokens, self.context - len(site.rollout.prompt_ids))
        return not self.stops.ends(path) and len(path) < room

    def _request(self, site: Site, path: Ids, problems: Mapping[str, Problem], branch: str) -> SampleRequest:
        return SampleRequest(
            problems[site.rollout.problem_id],
            n=self.options.k,
            prefix=Prefix(site.rollout.id, path),
            prompt_ids=site.rollout.prompt_ids,
            params=self.options.sample.params(),
            stage="intervene",
            group_id=f"{branch}:{site.rollout.group_id}",  # kept and replaced tokens use different random numbers
            seed=self.options.seed,
        )

    def _counts(self, ending: Sequence[Rollout], verdicts: Sequence[Verdict]) -> ContinuationCounts:
        times = 1 if ending else self.options.k
        unscorable = sum(v.outcome in (Outcome.TIMEOUT, Outcome.ERROR) for v in verdicts)
        tokens = sum(len(r.token_ids) for r in ending)
        return ContinuationCounts(times * sum(v.success for v in verdicts), times * unscorable, tokens)


def intervene_command(run: Path, options: Intervene, plan: AnalysisPlan, out: Path) -> int:
    """Replace tokens in the chosen rollouts and sample continuations. Write the number of successful continuations for
    each chosen token, and print the mean success rates.

    Raises:
        UserError: the model does not exist, the rollouts are from another model or task, the task is multi-turn, or
            ``out`` contains other files.
    """
    if isinstance(options.task, TurnTask):
        raise UserError(
            f"rollouts of task {options.task.name!r} have turns, and continuations cannot run an environment"
        )
    return launch(processes(intervention_parts(plan, options)), _intervene, run, options, plan, out, hint=SAME_COMMAND)


def _intervene(ranks: Ranks, run: Path, options: Intervene, plan: AnalysisPlan, out: Path) -> int:
    policy = open_policy(run, options.model)
    interventions = Interventions(policy, LocalSampler(policy, options.sample), options.task, options)
    parts = intervention_parts(plan, options)
    about = about_of("intervene", options.model_dump(mode="json"), plan, parts)

    def work(part: WorkUnit) -> pa.Table:
        rollouts = plan.read(run, part.step)[part.start : part.stop]
        refuse_foreign(policy, options.model, run, rollouts)
        sites = interventions.sites(rollouts)
        kept, replaced = (interventions.count_continuations(sites, problems, branch) for branch in (KEPT, REPLACED))
        return site_table(plan.split, part.step, sites, kept, replaced, options.k)

    with closing(options.task), AnalysisFolder(out) as folder:
        about |= {"weights": weights_hash(policy.model), "task_data": ranks.from_main(lambda: options.task.fingerprint)}
        problems = ranks.from_main(lambda: _problems(run, options, plan))
        ranks.from_main(lambda: folder.begin(about, vocabulary(policy)))
        compute_parts(ranks, folder, plan.split, parts, "continuations", work)
        if ranks.main:
            _print_counts(folder, plan)
    return 0


def _problems(run: Path, options: Intervene, plan: AnalysisPlan) -> dict[str, Problem]:
    ids = {rollout.problem_id for chosen in plan.steps for rollout in plan.read(run, chosen.step)}
    return problems_of(run, options.task, options.evaluate, plan.split, ids)


def _print_counts(folder: AnalysisFolder, plan: AnalysisPlan) -> None:
    table = folder.table()
    kept, replaced, k = (table[name].to_numpy() for name in ("kept_successes", "replaced_successes", "k"))
    effects_N = effects(replaced, kept, k)
    verified_N = ~np.isnan(effects_N)
    spent = pc.sum(table["generated_tokens"]).as_py()
    print_line(f"{len(effects_N):,} positions of {plan.rollouts:,} responses, {spent:,} generated tokens")
    if left := len(effects_N) - verified_N.sum():
        print_line(f"{left:,} positions are excluded from the means, because a continuation could not be verified")
    if verified_N.any():
        with_token, with_other = (float(np.mean((counts / k)[verified_N])) for counts in (kept, replaced))
        effect = effects_N[verified_N].mean()
        print_line(
            f"success with the token {with_token:.3f}, with its replacement {with_other:.3f}, effect {effect:+.3f}"
        )
    print_place(folder, plan)
