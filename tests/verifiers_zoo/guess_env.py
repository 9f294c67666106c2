"""A game of several turns, in the form of the package's own TextArena: the engine plays the user."""

import itertools
import random

import verifiers.v1 as vf

__all__ = ["GuessEnv", "GuessTaskset"]


class GuessData(vf.TaskData):
    seed: int


class GuessTask(vf.Task[GuessData, vf.State, vf.TaskConfig]):
    pass


class GuessConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    guesses: int = 4


class GuessEnv(vf.Env[GuessConfig]):
    async def run(self, task, agents):
        number = random.Random(task.data.seed).randrange(10)
        won = False
        async with agents.player.interaction(task) as game:
            said = await game.turn()
            for _ in range(self.config.guesses - 1):
                won = said.last_reply == str(number)
                if won or said.terminated:
                    break
                hint = "more" if said.last_reply < str(number) else "less"
                said = await game.turn(hint)
            won = won or said.last_reply == str(number)
        game.trace.record_reward("won", float(won), 1.0)


class GuessTaskset(vf.Taskset[GuessTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for i in itertools.count():
            yield GuessTask(GuessData(prompt="Guess 0 to 9:", seed=i), self.config.task)
