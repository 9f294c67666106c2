# %% [markdown]
# # My reward and my data
#
# Rows in memory are the problems, Python functions are the reward. The rows here are Countdown problems, because the
# shipped base model can read them; with a model of yours they are your rows.

# %%
import re

import outrider

task = outrider.load_recipe("grpo").task
rows = [{"problem": p.prompt, **p.answer} for p in (task.train(i) for i in range(600))]
rows = list({row["problem"]: row for row in rows}.values())  # a problem stands once in a table
held_out = [{"problem": p.prompt, **p.answer} for p in task.heldout(100)]
rows[0]

# %% [markdown]
# A reward takes `(problem, completion)` or has TRL's signature. The fields of the row are at hand. A score of 1 is a
# success; an exception, `None` or NaN is an *error* and never counts as 0.

# %%
STEP = re.compile(r"(\d+)([-+*/])(\d+)=(\d+)")
RESULT = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else None,
}


def solves(problem, completion):
    """1 where the equations use every number once and end at the target."""
    row = problem.answer["fields"]
    left = list(row["numbers"])
    for equation in completion.strip().split(";"):
        match = STEP.match(equation)
        if not match:
            return 0.0
        a, result, b, said = int(match[1]), RESULT[match[2]], int(match[3]), int(match[4])
        for number in (a, b):
            if number not in left:
                return 0.0
            left.remove(number)
        if result(a, b) != said:
            return 0.0
        left.append(said)
    return float(left == [row["target"]])


def brief(completions, **columns):
    """With TRL's signature: 1 for an empty response, 0 for one of 96 characters."""
    return [max(0.0, 1 - len(text) / 96) for text in completions]


# %%
run = outrider.train(
    "grpo",
    model="base:countdown",
    data=rows,
    eval_data=held_out,
    prompt="{problem}",
    reward=[solves, brief],
    reward_weights=[1.0, 0.1],
    config={
        "train.tokens": 300_000,
        "explore.0.n": 16,
        "sample.max_tokens": 96,
        "learn.lr": 1e-4,
        "evaluate.problems": 100,
        "evaluate.n": 8,
    },
    out="runs/rewarded",
)
run.evaluations[["step", "pass@1", "pass@1_low", "pass@1_high", "pass@8"]].round(3)

# %% [markdown]
# Which rewards did the responses get?

# %%
run.rollouts(columns=["outcome", "reward"]).groupby("outcome")["reward"].describe().round(3)
