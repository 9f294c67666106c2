"""The training loop and its records on disk. ``outrider.train(…)`` is :func:`outrider.api.training.train`."""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.training", "train")
