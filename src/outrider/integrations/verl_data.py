"""The data set that verl reads. Its items are placeholders, since Outrider takes the problems from the recipe's task.
Experimental.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset

from outrider.errors import UserError
from outrider.integrations.verl_config import recipe_of
from outrider.tasks.heldout import heldout_problems


class TaskProblems(Dataset[dict[str, Any]]):
    """The class for verl's ``data.custom_cls``. Verl reads the data set in batches, and counts each batch as a step.

    A training item is only a placeholder: Outrider chooses the problems of a step later, as the recipe says. A
    validation item represents the held-out problem with the same index.

    Args:
        data_files: ``train`` or ``heldout``.
        config: verl's ``data`` section; its key ``outrider`` has the recipe.
    """

    def __init__(
        self, data_files: str, tokenizer: Any, config: Any, processor: Any = None, max_samples: int = -1
    ) -> None:
        recipe = recipe_of(config.get("outrider"))
        if data_files == "train":
            self._length = (recipe.train.steps or 0) * recipe.train.problems
        elif data_files == "heldout":
            self._length = len(heldout_problems(recipe.task, recipe.evaluate))
        else:
            raise UserError(f"data.train_files and val_files are train and heldout here, not {data_files!r}")
        self._kind = data_files

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return {
            "index": index,
            "raw_prompt": [{"role": "user", "content": f"{self._kind} {index}"}],
            "data_source": "outrider",
            "reward_model": {"style": "rule", "ground_truth": ""},
        }
