"""A game that does what it is told, which is mostly wrong, with a harness of its own."""

import asyncio
import os
import time

import verifiers.v1 as vf
from outrider_chat import ChatHarness

__all__ = ["OddEnv", "OddHarness", "OddTaskset"]


class OddHarness(ChatHarness):
    async def resume(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, messages, gate=None):
        if messages[-1].content != "rewrite":
            return await super().resume(ctx, trace, runtime, endpoint, secret, mcp_urls, data, messages)
        forgotten = data.model_copy(update={"prompt": messages})
        return await self.launch(ctx, trace, runtime, endpoint, secret, mcp_urls, forgotten)


class OddConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()
    other: vf.AgentConfig = vf.AgentConfig()
    max_concurrent_agents: int | None = None


class OddEnv(vf.Env[OddConfig]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as game:
            said = await game.turn()
            while not said.terminated:
                match said.last_reply:
                    case "raise":
                        raise OSError("the disk is gone")
                    case "exit":
                        os._exit(3)
                    case "wait":
                        await asyncio.sleep(1000)
                    case "block":
                        time.sleep(1000)
                    case "second":
                        await agents.other.run(task)
                    case "nan":
                        game.trace.record_reward("odd", float("nan"), 1.0)
                        return
                said = await game.turn(said.last_reply)


class OddTaskset(vf.Taskset[vf.Task, vf.TasksetConfig]):
    def load(self):
        return [vf.Task(vf.TaskData(prompt=f"Turn {i}:")) for i in range(5)]
