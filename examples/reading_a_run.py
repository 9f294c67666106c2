# %% [markdown]
# # Reading a run
#
# A run folder holds every rollout with its log-probabilities, entropies, advantages and verdict. Here they are frames.

# %%
import matplotlib.pyplot as plt

import outrider

run = outrider.train(
    "dars-hw",
    config={"train.tokens": 300_000, "evaluate.problems": 100, "evaluate.n": 16},
    out="runs/reading",
)
metrics = run.metrics
metrics[["step", "tokens", "reward", "solved", "mixed", "unsolved", "entropy"]].describe().round(3)

# %% [markdown]
# DARS samples unsolved problems again. How many tokens went into the first round, and how many into the second?

# %%
spent = metrics[[name for name in metrics if name.startswith("spent/") and name.endswith("/tokens")]].sum()
(spent / spent.sum()).round(3)

# %% [markdown]
# Rollouts are filtered on disk, before they are read. Which stage found the successes of the last step?

# %%
last = run.rollouts(step=int(metrics["step"].max()), columns=["problem_id", "stage", "reward", "text"])
last.groupby("stage")["reward"].agg(["size", "mean"]).round(3)

# %% [markdown]
# Group size against pass rate: hard problems get more rollouts.

# %%
groups = run.rollouts(columns=["step", "problem_id", "reward"]).groupby(["step", "problem_id"])["reward"]
groups = groups.agg(["size", "mean"])
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.scatter(groups["mean"], groups["size"], s=12, alpha=0.3)
axes.set(xlabel="pass rate of the group", ylabel="rollouts")
plt.show()

# %% [markdown]
# Entropy of the tokens of right and wrong responses in the first and in the last step.

# %%
entropy = {
    (step, "correct" if correct else "incorrect"): run.rollouts(step=step, correct=correct, columns=["entropies"])
    for step in (1, int(metrics["step"].max()))
    for correct in (True, False)
}
for (step, verdict), frame in entropy.items():
    tokens = frame["entropies"].explode().astype(float)
    print(f"step {step:3d}, {verdict:9s}: {tokens.mean():.3f} nats a token in {len(frame)} rollouts")
