"""Single turn: two numbers to add."""

import verifiers.v1 as vf

__all__ = ["SumsTaskset"]


class SumData(vf.TaskData):
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float((trace.last_reply or "").strip() == self.data.answer)

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply or "") < 4)


class SumsConfig(vf.TasksetConfig):
    n: int = 8


class SumsTaskset(vf.Taskset[SumTask, SumsConfig]):
    def load(self):
        return [
            SumTask(SumData(prompt=f"{i}+{i + 1}=", system_prompt="Add.", answer=str(2 * i + 1)), self.config.task)
            for i in range(self.config.n)
        ]
