"""``outrider validate``: what is wrong with a task, before a run is spent on it."""
