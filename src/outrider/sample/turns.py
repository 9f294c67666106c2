"""Multi-turn rollouts: a sampler samples each turn, and environments reply between turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from outrider.environments.environment import Reply
from outrider.environments.environments import Environments, Failed, Key
from outrider.model.load import Policy, lost_characters
from outrider.record import Ids, Observation, Rollout, SampleRequest, StopReason, identity_seed
from outrider.sample.options import SampleOptions
from outrider.sample.requests import PolicyLimits, decode, prompt_of, rollouts_of
from outrider.sample.sampler import Export, Keeping, KeptRollouts, Sampler, takes_adapter
from outrider.sample.trajectory import Trajectory


class TurnSampler:
    """Samples rollouts turn by turn.

    A turn is the text that the policy samples up to an end token or a stop string. The text is sent to the rollout's
    environment, and the reply is appended as observed tokens. All rollouts whose environments have replied are batched,
    even if they are in different turns, so a slow environment delays only its own rollout. Sampled tokens are never
    re-encoded from text, and only new observations are encoded.

    The first turn uses the rollout's seed, and a later turn uses a seed that depends on the rollout's id and on the
    position of the turn's first token. A branch continues a prefix of another rollout. The turns in the prefix are sent
    to a new environment, which must give the same replies again, token by token. All rollouts of a group have
    environments with the same seed.

    A response has at most ``max_tokens`` tokens, including observations.

    Args:
        environments: pool of the task's environments.
        most_turns: maximum number of turns per rollout, including the turns in a branch's prefix.
        most_rollouts: maximum number of concurrent rollouts. The rollouts of one request always run together.
    """

    def __init__(
        self,
        sampler: Sampler,
        policy: Policy,
        options: SampleOptions,
        environments: Environments,
        most_turns: int,
        most_rollouts: int,
    ) -> None:
        self._sampler, self._options = sampler, options
        self._environments, self._most_turns, self._most_rollouts = environments, most_turns, most_rollouts
        self._version = 0
        self._policy, self._limits = policy, PolicyLimits(policy)
        self.takes_adapter = takes_adapter(sampler)
        self.gives_entropies, self.notices = sampler.gives_entropies, sampler.notices

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        """Sample ``n`` rollouts for each request. Rollouts are in the order of the requests. If an environment ends a
        rollout, it also returns the rollout's verdict, such as *correct*."""
        paths = {(i, k): Trajectory(request, k) for i, request in enumerate(requests) for k in range(request.n)}
        keeping = self._sampler.keeping() if isinstance(self._sampler, Keeping) else nullcontext()
        with keeping as kept:
            self._draw(requests, paths, kept)
        return self._rollouts(requests, paths)

    def _draw(
        self, requests: Sequence[SampleRequest], paths: Mapping[Key, Trajectory], kept: KeptRollouts | None
    ) -> None:
        """Sample until all rollouts have ended. The rollouts of a request start together, since they share a prompt."""
        waiting = deque(enumerate(requests))
        end = self._policy.prompt_end
        asked = 0  # number of active rollouts; each of them waits for its environment's reply here
        try:
            while waiting or asked:
                while waiting and (not asked or asked + waiting[0][1].n <= self._most_rollouts):
                    i, request = waiting.popleft()
                    problem = request.problem if end is None else request.problem.prompted(end)
                    seed = identity_seed(request.seed, request.group_id, "environment")
                    for k in range(request.n):
                        self._environments.begin((i, k), problem, seed)
                    asked += request.n
                answered = list(self._environments.answers())
                asked += self._go_on(paths, answered, kept) - len(answered)
        finally:
            self._environments.close(paths)

    def _go_on(
        self,
        paths: Mapping[Key, Trajectory],
        answered: Sequence[tuple[Key, Reply | Failed]],
        kept: KeptRollouts | None,
    ) -> int:
        """Sample the next turn of all rollouts whose environments have replied, and send each turn to its environment.

        Returns the number of turns sent.
        """
        acting: list[tuple[Key, Ids]] = []
        ready: dict[Key, Trajectory] = {}
        for key, answer in answered:
            path = paths[key]
            self._heard(path, answer)
            if path.stop is None and path.replayed:
                acting.append((key, path.replayed[0][0]))
            elif path.stop is None:
                ready[key] = path
        if kept is not None:
            kept.drop(paths[key].id for key, _ in answered if paths[key].stop is not None)
        drawn = self._sampler.sample([path.draw for path in ready.values()]) if ready else []
        for (key, path), turn in zip(ready.items(), drawn, strict=True):
            path.sampled(turn)
            if path.stop is None:
                acting.append((key, np.concatenate(path.turn)))
        self._environments.close([key for key, _ in answered if paths[key].stop is not None])
        for (key, _), text in zip(acting, decode(self._policy.tokenizer, [ids for _, ids in acting]), strict=True):
            paths[key].turns += 1
            self._environments.act(key, text)
        return len(acting)

    @property
    def engines(self) -> int:
        return self._sampler.engines

    def take(self, version: int, export: Export) -> dict[str, int]:
        self._version = version
        return self._sampler.take(version, export)

    @property
    def single(self) -> Sampler:
        """A sampler with the same weights but without environments, used to check a weight sync."""
        return SingleTurns(self, self._sampler)

    def close(self) -> None:
        self._environments.end()
        self._sampler.close()

    def _heard(self, path: Trajectory, answer: Reply | Failed) -> None:
        """Process the environment's reply."""
        if isinstance(answer, Failed):
            return path.fail(answer)
        if path.last is None and answer.observation and self._policy.options.chat:
            return path.fail(
                Failed(
                    "it starts with an observation, which chat templates do not support: put the text into the prompt"
                )
            )
        if lost := lost_characters(self._policy.tokenizer, answer.observation):
            return path.fail(
                Failed(f"the tokenizer has no token for {', '.join(map(repr, lost[:5]))} in the observation")
            )
        said = self._encoded(path, answer.observation)
        if path.turns == 0 and path.request.prefix is not None:
            return self._compare(path, said, path.opening)
        if path.replayed:
            _, observed = path.replayed.popleft()
            return (
                path.fail(Failed("it ended where the replayed rollout continued"))
                if answer.done
                else self._compare(path, said, observed)
            )
        if answer.done and answer.verdict is None:
            return path.fail(Failed("it ended without a verdict"))
        ends = self._ends(path, answer, said)
        # only the NamedTuple's numbers and flags are stored, not the text
        path.observed(said if ends is None else said[:0], answer.error, answer.cut)
        if ends is not None:
            path.end(ends, answer.verdict if answer.done else None)
        return None

    def _ends(self, path: Trajectory, answer: Reply, said: Ids) -> StopReason | None:
        if answer.done:
            return StopReason.DONE
        return StopReason.TURNS if path.turns == self._most_turns else self._no_room(path, said)

    def _compare(self, path: Trajectory, said: Ids, observed: Ids) -> None:
        if not np.array_equal(said, observed):
            path.fail(
                Failed(f"it is not deterministic, since replies differ after turn {path.turns}: no branch can start")
            )

    def _no_room(self, path: Trajectory, said: Ids) -> StopReason | None:
        """Return the stop reason if an observation and one more token exceed a limit, and None otherwise.

        An observation that does not fit is excluded from the rollout.
        """
        params = path.request.params or self._options.params()
        response = len(path.response) + len(said)
        if response >= params.max_tokens:
            return StopReason.LENGTH
        if len(prompt_of(path.request)) + response >= self._limits.context:
            return StopReason.CONTEXT
        return None

    def _encoded(self, path: Trajectory, observation: str) -> Ids:
        """Return the tokens of an observation.

        With a chat template, even an empty observation has tokens, because the template adds tokens that end one turn
        and start the next.
        """
        if not observation and (path.last is None or not self._policy.options.chat):
            return np.zeros(0, np.int32)
        return self._policy.observation(observation, path.last)

    def _rollouts(self, requests: Sequence[SampleRequest], paths: dict[Key, Trajectory]) -> list[Rollout]:
        tokens = {key: path.tokens() for key, path in paths.items()}
        modes = [(request.params or self._options.params()).logprob_mode for request in requests]
        drawn = rollouts_of(requests, tokens, modes, self._version, self._policy.tokenizer)
        return [
            replace(
                one,
                trainable_T=path.trainable_T,
                observations=places,
                verdict=path.verdict,
                mode=(path.drawn or one).mode,
                policy_version=(path.drawn or one).policy_version,
            )
            for one, path, places in zip(drawn, paths.values(), self._observations(paths, drawn), strict=True)
        ]

    def _observations(
        self, paths: Mapping[Key, Trajectory], drawn: Sequence[Rollout]
    ) -> Iterator[tuple[Observation, ...]]:
        """Yield the observations of each rollout, with their positions in the rollout's text."""
        heard = [path.heard for path in paths.values()]
        cuts = [(one.token_ids, at) for one, all_ in zip(drawn, heard, strict=True) for o in all_ for at in o.span]
        lengths = iter(map(len, decode(self._policy.tokenizer, [ids[:at] for ids, at in cuts])))
        for all_ in heard:
            yield tuple(one._replace(begin=next(lengths), end=next(lengths)) for one in all_)


class SingleTurns:
    """Samples one turn per rollout, without environments. Weight syncs go through the multi-turn sampler."""

    def __init__(self, whole: TurnSampler, turns: Sampler) -> None:
        self._whole, self._turns = whole, turns
        self.takes_adapter = takes_adapter(turns)
        self.gives_entropies, self.notices = turns.gives_entropies, turns.notices

    @property
    def engines(self) -> int:
        return self._turns.engines

    def sample(self, requests: Sequence[SampleRequest]) -> list[Rollout]:
        return self._turns.sample(requests)

    def take(self, version: int, export: Export) -> dict[str, int]:
        return self._whole.take(version, export)

    def close(self) -> None:
        self._turns.close()
