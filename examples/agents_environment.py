# %% [markdown]
# # An agent's environment
#
# An environment is a class: `begin` and `step`. What it says is *observed*: context that no gradient, entropy or
# denominator sees. Here it is a directory in which a question takes several lookups.

# %%
import inspect
from random import Random

import directory

import outrider

print(inspect.getsource(directory.Directory))

# %% [markdown]
# Problems: from a start along relations to an answer, with wrong turns beside the way. The shipped base `base:hops` was
# taught such questions of one and two lookups.


# %%
def question(random, length):
    """`K.bd?`: who is at the end of K's relation b and then d?"""
    names = random.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2 * length + 1)
    relations = "".join(random.choices("abcdef", k=length))
    way, others = names[: length + 1], names[length + 1 :]
    facts = []
    for here, relation, there, other in zip(way, relations, way[1:], others, strict=False):
        leads = there + other if there != way[-1] and random.random() < 0.5 else there
        facts.append(f"{here}.{relation}:{''.join(random.sample(leads, len(leads)))}")
    return {"question": f"{way[0]}.{relations}?", "answer": " ".join([way[-1], *facts])}


random = Random(0)
problems = [question(random, length) for length in (2, 3, 4, 5) for _ in range(250)]
problems = list({row["question"]: row for row in problems}.values())
random.shuffle(problems)
problems[0]

# %%
run = outrider.train(
    "grpo",
    setting="hops",
    data=problems[60:],
    eval_data=problems[:60],
    prompt="{question}",
    reward="exact",  # asked only where the environment ends a rollout without a verdict
    environment="directory.py:Directory",
    config={"task.environment.stop": [";"], "train.tokens": 150_000, "evaluate.problems": 60, "evaluate.n": 8},
    out="runs/agent",
)
run.evaluations[["step", "pass@1", "pass@1_low", "pass@1_high", "pass@8"]].round(3)

# %% [markdown]
# A rollout as it was read and written: turns of the policy, and what the directory said.

# %%
last = run.rollouts(step=int(run.metrics["step"].max()), correct=True, columns=["text", "observations"])
for text in last["text"].head(5):
    print(text)
