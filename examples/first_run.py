# %% [markdown]
# # First run
#
# GRPO trains the shipped base model on Countdown (make a number from other numbers): half a minute on two cores, no
# download. The question of every run here: does pass@1 rise, and what happens to pass@k?

# %%
import outrider

run = outrider.train(
    "grpo",
    config={"train.tokens": 300_000, "evaluate.problems": 100, "evaluate.n": 16},
    out="runs/first",
)
run

# %% [markdown]
# Each evaluation has pass@k with the ends of its 95 % confidence interval.

# %%
run.evaluations[["step", "pass@1", "pass@1_low", "pass@1_high", "pass@16", "entropy"]].round(3)

# %% [markdown]
# A report examines the run. Findings are what a researcher should know: dead prompts, entropy collapse, lost coverage.

# %%
for finding in run.findings:
    print(f"{finding.severity}: {finding.name}\n  {finding.sentence}\n  try: {finding.advice[0]}\n")

# %% [markdown]
# The trained policy answers. A Countdown prompt is `numbers>target:`, a response is a chain of equations.

# %%
prompt = "7 10 7>10:"
for text in run.generate([prompt], n=4)[0]:
    print(prompt, text.strip())

# %% [markdown]
# The same run on the command line: `outrider train grpo train.tokens=300_000 train.ranks=1 evaluate.problems=100
# evaluate.n=16 --out runs/first`. Next: your own reward and data.
