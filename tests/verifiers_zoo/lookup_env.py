"""Tool use: a server of the package, one for all rollouts, that knows a number for each name."""

import verifiers.v1 as vf

__all__ = ["LookupTaskset"]

NUMBERS = {"1": 17, "2": 42, "3": 5, "4": 99}


class LookupToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "book"

    @vf.tool
    def find(self, name: str) -> str:
        """Find the number of a name."""
        if name == "bad":
            raise ValueError("nobody")
        return str(NUMBERS[name]) if name in NUMBERS else "nothing"


class LookupData(vf.TaskData):
    answer: str


class LookupTask(vf.Task[LookupData]):
    @vf.reward(weight=1.0)
    async def found(self, trace: vf.Trace) -> float:
        return float(self.data.answer in (trace.last_reply or ""))


class LookupConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class LookupTaskset(vf.Taskset[LookupTask, LookupConfig]):
    @classmethod
    def toolsets(cls, config):
        return [LookupToolset(config.tools)]

    def load(self):
        return [
            LookupTask(LookupData(prompt=f"Number of {name}?", answer=str(number)), self.config.task)
            for name, number in NUMBERS.items()
        ]


if __name__ == "__main__":
    LookupToolset.run()
