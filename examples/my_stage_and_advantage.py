# %% [markdown]
# # My stage and my advantage
#
# A method is a stage (which rollouts to sample), a credit chain (the advantage of each token) and an objective. Both
# components here are classes of `my_methods.py`, beside this notebook; a recipe names them by import path.

# %%
import inspect

import my_methods

import outrider
from outrider.testing import check_baseline, check_stage

print(inspect.getsource(my_methods.Retry))
print(inspect.getsource(my_methods.Rarity))

# %% [markdown]
# The laws of the house, before anything is trained: budgets, determinism, groups of one, nothing solved, resume.

# %%
check_stage(my_methods.Retry)
check_baseline(my_methods.Rarity)

# %%
recipe = outrider.load_recipe(
    "grpo",
    {
        "name": "retry",
        "explore": ["uniform", {"my_methods.py:Retry": {"n": 8}}],
        "credit.main": ["my_methods.py:Rarity"],
    },
)

# %% [markdown]
# Against GRPO at equal generated tokens, with the same seeds and held-out problems. Two seeds are few: an interval of
# two seeds is wide, and a result of them is a first look.

# %%
result = outrider.bench(
    ["grpo", recipe],
    tokens=300_000,
    seeds=2,
    points=2,
    config={"evaluate.problems": 100, "evaluate.n": 16},
    out="runs/mine",
)
result.differences.round(3)

# %%
result.plot()
