"""``outrider validate``: checks of a task before a run."""
