"""Dense retrieval by cosine similarity of embeddings."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from outrider.environments.passages import Passage
from outrider.environments.retriever import Index, Retriever
from outrider.errors import UserError

_VECTORS = "vectors.npy"
_SAME = 0.999  # minimum cosine similarity between one text's embeddings by the same model on two machines
_EXTRA = {"model2vec": "dense", "sentence_transformers": "embed"}


class Dense(Retriever):
    r"""Exact search by cosine similarity: compares the query's embedding with an embedding of each passage's title and
    text.

    For unit vectors the similarity is :math:`\cos(q, p) = q^\top p`. Like a flat faiss index, a search compares the
    query with every passage. With 21 million passages and 768 dimensions, each search reads 64 GB; such a corpus needs
    a separate search service. The package ``model2vec`` provides static embeddings, which are fast on a CPU. The
    package ``sentence_transformers`` provides encoders such as e5, which is common in papers on search agents. The
    encoder e5 needs the prefixes ``"query: "`` and ``"passage: "``.
    """

    model: str = Field(min_length=1, description="Hugging Face Hub name or folder of the embedding model")
    package: Literal["model2vec", "sentence_transformers"] = Field(
        "model2vec", description="Python package that loads the embedding model"
    )
    query: str = Field("", description="prefix added to each query before embedding; an empty string adds nothing")
    passage: str = Field("", description="prefix added to each passage before embedding; an empty string adds nothing")

    @property
    def made_with(self) -> str:
        return f"dense {self.package} {self.model} {self.passage!r}"

    def make(self, passages: Sequence[Passage]) -> Index:
        encoder = Encoder(self)
        return DenseIndex(encoder, encoder.encode([self._text(passage) for passage in passages]), passages)

    def read(self, folder: Path, passages: Sequence[Passage]) -> Index:
        # memory-mapped, so that all processes share one copy of the index
        vectors_PD, encoder = np.load(folder / _VECTORS, mmap_mode="r"), Encoder(self)
        again = encoder.encode([self._text(passages[0])])[0]
        if len(again) != vectors_PD.shape[1] or again @ vectors_PD[0] < _SAME:
            raise UserError(
                f"{folder} was built with another version of the model {self.model}: remove the folder to rebuild the "
                "index"
            )
        return DenseIndex(encoder, vectors_PD, passages)

    def _text(self, passage: Passage) -> str:
        return f"{self.passage}{passage.title}\n{passage.text}"


class Encoder:
    """Embeds texts as float32 unit vectors. The embedding of a text without words is the zero vector."""

    def __init__(self, options: Dense) -> None:
        self.options, self._encode = options, _loaded(options)

    def __getstate__(self) -> Dense:
        return self.options

    def __setstate__(self, options: Dense) -> None:
        self.__init__(options)  # type: ignore[misc]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors_ND: NDArray[np.float32] = np.asarray(self._encode(list(texts)), np.float32)
        lengths_N = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
        return np.asarray(vectors_ND / np.maximum(lengths_N, np.finfo(np.float32).tiny), np.float32)


class DenseIndex(Index):
    """An index with the embeddings of all passages, a float32 array of shape ``[P, D]``."""

    def __init__(self, encoder: Encoder, vectors_PD: NDArray[np.float32], passages: Sequence[Passage]) -> None:
        self._encoder, self._vectors_PD, self._passages = encoder, vectors_PD, passages

    def search(self, query: str, k: int) -> list[Passage]:
        if not query.strip():
            return []
        cosines_P = self._vectors_PD @ self._encoder.encode([self._encoder.options.query + query])[0]
        # a stable sort, so that passages with equal similarity keep the order of the corpus
        best = np.argsort(-cosines_P, kind="stable")[:k]
        return [self._passages[int(i)] for i in best]

    def save(self, folder: Path) -> None:
        np.save(folder / _VECTORS, self._vectors_PD)


def _loaded(options: Dense) -> Callable[[list[str]], Any]:
    try:
        package = importlib.import_module(options.package)
    except ImportError as error:
        extra = _EXTRA[options.package]
        missing = f"a dense retriever needs the package {options.package}"
        raise UserError(f"{missing}: pip install 'outrider[{extra}]'") from error
    try:
        if options.package == "model2vec":
            # turn off multiprocessing, which the package would use for ten thousand texts or more
            return partial(package.StaticModel.from_pretrained(options.model).encode, use_multiprocessing=False)
        return partial(package.SentenceTransformer(options.model).encode, show_progress_bar=False)
    except Exception as error:
        raise UserError(f"{options.package} cannot load {options.model} ({type(error).__name__}: {error})") from error
