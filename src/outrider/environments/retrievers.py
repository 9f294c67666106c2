"""The retrievers, by the name that a recipe uses."""

from outrider.environments.bm25 import Bm25
from outrider.environments.dense import Dense
from outrider.environments.retriever import Retriever

RETRIEVERS: dict[str, type[Retriever]] = {"bm25": Bm25, "dense": Dense}
