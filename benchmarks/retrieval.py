"""How much of what a question rests on is among the passages that are found for it, on two corpora.

python benchmarks/retrieval.py [DATA [FOLDER]]: DATA holds 2wikimultihopqa/ and hotpotqa/ in their released forms;
retrieval.json is written into FOLDER. The dense model is the static embedding that the package wordllama brings (`pip
install model2vec wordllama`), put into a folder in model2vec's form; without the package BM25 is measured alone.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path

from outrider.environments.bm25 import Bm25
from outrider.environments.dense import Dense
from outrider.environments.passages import read_corpus
from outrider.environments.retriever import Retriever, recall

CORPORA = {
    "2WikiMultihopQA": (["2wikimultihopqa/corpus.jsonl.gz"], "2wikimultihopqa/dev150.jsonl"),
    "HotpotQA": (["hotpotqa/distractor300.jsonl", "hotpotqa/train100.jsonl"], "hotpotqa/distractor300.jsonl"),
}
# of HippoRAG (arXiv 2405.14831, table 2), 1,000 questions each over corpora of about that size
PUBLISHED = {
    "2WikiMultihopQA": {"BM25": (0.518, 0.619), "Contriever": (0.466, 0.575)},
    "HotpotQA": {"BM25": (0.554, 0.722), "Contriever": (0.572, 0.755)},
}
AT = (2, 5)


def static_model(folder: Path) -> str | None:
    """The weights of wordllama (256 numbers for each token of Llama 2) in the form of model2vec."""
    found = importlib.util.find_spec("wordllama")
    if found is None or found.origin is None:
        return None
    import numpy as np
    from model2vec import StaticModel
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    package = Path(found.origin).parent
    vectors = load_file(package / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(package / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    StaticModel(vectors.astype(np.float32), tokenizer, normalize=True).save_pretrained(str(folder))
    return str(folder)


def measured(retriever: Retriever, data: Path, files: list[str], questions: str) -> list[float]:
    index = retriever.index(read_corpus([str(data / file) for file in files]), None)
    rows = [json.loads(line) for line in (data / questions).read_text().splitlines()]
    titles = [row.get("supporting_titles") or sorted({title for title, _ in row["supporting_facts"]}) for row in rows]
    found = zip(rows, titles, strict=True)
    shares = [[recall(index, row["question"], known, k) for k in AT] for row, known in found]
    return [round(sum(at) / len(rows), 3) for at in zip(*shares, strict=True)]


def main() -> None:
    data = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    if not data.is_dir():
        print(f"no corpora in {data}: nothing was measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        retrievers: dict[str, Retriever] = {"BM25": Bm25()}
        if model := static_model(Path(folder) / "model"):
            retrievers["static embedding (wordllama)"] = Dense(model=model)
        results = {
            name: {kind: measured(retriever, data, *where) for kind, retriever in retrievers.items()}
            for name, where in CORPORA.items()
        }
    packages = [name for name in ("bm25s", "model2vec", "wordllama") if importlib.util.find_spec(name)]
    report = {
        "date": date.today().isoformat(),
        "recall of supporting titles at": AT,
        "measured": results,
        "published": PUBLISHED,
        "versions": {name: version(name) for name in packages},
    }
    print(json.dumps(report, indent=1))
    if len(sys.argv) > 2:
        Path(sys.argv[2], "retrieval.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
