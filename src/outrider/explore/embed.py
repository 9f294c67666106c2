"""Measures text similarity, to find earlier problems that resemble a new problem."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from outrider.errors import UserError
from outrider.options import Options
from outrider.record import identity_seed, uniforms

_FEATURES = 2**18  # number of n-gram hashes; with 50,000 distinct n-grams, about one in five collides
_WORDS = r"\w+|[^\w\s]"  # single digits and signs count as words, because "3+4" contains nothing else


class Embedder(Options):
    """Base class of text similarities. Fields are the options; private attributes are caches, which are not saved as
    state."""

    def prepare(self) -> None:
        """Load models and packages, so that a missing model or package is reported before sampling starts.

        Raises:
            UserError: a package or model is missing.
        """

    def cosines(self, queries: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return cosine similarities ``[queries, texts]``; a row does not depend on the other queries.

        The method returns similarities instead of vectors, since TF-IDF vectors have a quarter of a million columns, of
        which nearly all are zero.
        """
        raise NotImplementedError


class Tfidf(Embedder):
    """Cosine similarity of TF-IDF vectors with inverse document frequency ``1 + log((1 + N) / (1 + N_term))``.

    Document frequencies are counted over ``texts``; a query's n-grams that no text contains do not affect the ranking.
    N-grams are hashed instead of looked up in a vocabulary, so a text's counts are computed once. Only the weights are
    recomputed when the texts change. Degenerate cases: two texts without a common n-gram, or an empty text, have
    similarity 0. Source: scikit-learn.

    >>> near, far = Tfidf().cosines(["3 4 5>12:"], ["3 4 6>13:", "7 8 9>24:"])[0]
    >>> bool(0 < far < near < 1)
    True
    """

    analyzer: Literal["word", "char"] = Field(
        "word", description="unit from which n-grams are built: words and symbols (word), or characters (char)"
    )
    ngrams: int = Field(
        2,
        ge=1,
        le=8,
        description="maximum length n of the n-grams used to compare texts; shorter n-grams are also used",
    )

    _counter: Any = PrivateAttr(None)
    _rows: dict[str, Any] = PrivateAttr(default_factory=dict)
    _texts: list[str] | None = PrivateAttr(None)
    _weights: Any = PrivateAttr(None)
    _columns: Any = PrivateAttr(None)

    def prepare(self) -> None:
        # imported here: the import takes a second, and only this embedder needs it
        from sklearn.feature_extraction.text import HashingVectorizer  # type: ignore[import-untyped]

        if self._counter is None:
            self._counter = HashingVectorizer(
                analyzer=self.analyzer,
                ngram_range=(1, self.ngrams),
                token_pattern=_WORDS,
                n_features=_FEATURES,
                alternate_sign=False,
                norm=None,
                dtype=np.float32,
            )

    def cosines(self, queries: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        self.prepare()
        if list(texts) != self._texts:
            self._fit(list(texts))
        weighted = self._weights.transform(self._counter.transform(queries))
        return np.asarray((weighted @ self._columns).toarray(), np.float32)

    def _fit(self, texts: list[str]) -> None:
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
        from sklearn.feature_extraction.text import TfidfTransformer

        known = self._rows  # read once: thousands of reads of a private attribute would dominate the run time
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            counts = self._counter.transform(new)
            for text, start, end in zip(new, counts.indptr[:-1], counts.indptr[1:], strict=True):
                known[text] = counts.indices[start:end].copy(), counts.data[start:end].copy()
        rows = [known[text] for text in texts]
        self._rows = dict(zip(texts, rows, strict=True))
        ends = np.cumsum([0, *(len(places) for places, _ in rows)])
        places, counts = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        matrix = csr_matrix((counts, places, ends), shape=(len(texts), _FEATURES))
        self._weights = TfidfTransformer().fit(matrix)
        self._columns = self._weights.transform(matrix).T.tocsr()  # transposed once, not in every product
        self._texts = texts


class Transformer(Embedder):
    """Cosine similarity of the embeddings of a ``sentence-transformers`` model.

    For any other Hugging Face encoder, the package ``sentence-transformers`` adds mean pooling over tokens. Texts are
    embedded one at a time, since the last bits of an embedding depend on the other texts in its batch.

    Source: XRPO (arXiv 2510.06672) uses Qwen3-Embedding-8B and does not mention an instruction prompt.
    """

    model: str = Field(min_length=1, description="Hugging Face Hub name or folder of the embedding model")

    _model: Any = PrivateAttr(None)
    _vectors: dict[str, NDArray[np.float32]] = PrivateAttr(default_factory=dict)

    def prepare(self) -> None:
        if self._model is not None:
            return
        try:
            package = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise UserError(
                f"the embedder transformer: {{model: {self.model}}} needs a package: pip install 'outrider[embed]'"
            ) from error
        try:
            self._model = package.SentenceTransformer(self.model)
        except Exception as error:  # offline, unknown, gated and broken models raise different errors
            reason = str(error).strip().split("\n")[0].rstrip(".")
            raise UserError(f"embedder model {self.model!r} cannot be loaded ({reason})") from error

    def cosines(self, queries: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        self.prepare()
        known = self._vectors
        self._vectors = {text: known[text] if text in known else self._vector(text) for text in dict.fromkeys(texts)}
        vectors_ND = np.stack([*map(self._vectors.__getitem__, texts)])
        # query by query: in a matrix product, the rounding of a row may depend on the other rows
        return np.stack([vectors_ND @ self._vector(query) for query in queries])

    def _vector(self, text: str) -> NDArray[np.float32]:
        vector = self._model.encode([text], normalize_embeddings=True, show_progress_bar=False)[0]
        return np.asarray(vector, np.float32)


class Random(Embedder):
    """Pseudo-random similarities in (0, 1), computed from a hash of the two compared texts, for an ablation of
    retrieval.

    >>> bool((Random().cosines(["a"], ["b", "c"]) == Random().cosines(["x", "a"], ["b", "c"])[1]).all())
    True
    """

    seed: int = Field(0, ge=0, description="random seed of the pseudo-random similarities")

    _places: dict[str, int] = PrivateAttr(default_factory=dict)

    def cosines(self, queries: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        known = self._places
        places = [known[text] if text in known else identity_seed("text", text) for text in texts]
        self._places = dict(zip(texts, places, strict=True))
        seeds_Q = np.array([identity_seed(self.seed, "query", query) for query in queries], np.int64)
        places_N = np.array(places, np.int64)
        return uniforms(seeds_Q, places_N).astype(np.float32)


EMBEDDERS: dict[str, type[Embedder]] = {"tfidf": Tfidf, "transformer": Transformer, "random": Random}
