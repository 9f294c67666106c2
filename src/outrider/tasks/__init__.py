"""Tasks, which provide problems and verify responses. A recipe names a task: ``task: {table: {train_data: …}}``."""

from outrider.tasks.countdown import Countdown
from outrider.tasks.environment import EnvironmentTask
from outrider.tasks.gym import Gym
from outrider.tasks.hops import Hops
from outrider.tasks.python_tool import PythonTool
from outrider.tasks.search import Search
from outrider.tasks.suite import Suite
from outrider.tasks.table import Table
from outrider.tasks.task import Task
from outrider.tasks.trl import Trl
from outrider.tasks.verifiers import Verifiers
from outrider.tasks.word_problems import WordProblems

TASKS = {
    "countdown": Countdown,
    "table": Table,
    "gym": Gym,
    "hops": Hops,
    "word_problems": WordProblems,
    "search": Search,
    "python_tool": PythonTool,
    "suite": Suite,
    "trl": Trl,
    "verifiers": Verifiers,
    "environment": EnvironmentTask,
}

OLD_TASKS = {"world": "environment"}
"""Old names of tasks, mapped to their present names."""

__all__ = [
    "OLD_TASKS",
    "TASKS",
    "Countdown",
    "EnvironmentTask",
    "Gym",
    "Hops",
    "PythonTool",
    "Search",
    "Suite",
    "Table",
    "Task",
    "Trl",
    "Verifiers",
    "WordProblems",
]
