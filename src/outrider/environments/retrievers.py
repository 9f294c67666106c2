"""The available retrievers, listed under the names that recipes use."""

from outrider.environments.bm25 import Bm25
from outrider.environments.dense import Dense
from outrider.environments.retriever import Retriever

RETRIEVERS: dict[str, type[Retriever]] = {"bm25": Bm25, "dense": Dense}
