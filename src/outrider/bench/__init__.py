"""Comparing recipes: the same budget, seeds and held-out problems for each, one table and one picture."""
