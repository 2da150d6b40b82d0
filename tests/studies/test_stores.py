"""Other people's retrievers, with their real packages: order and documents stay theirs, and every score adds up."""

from __future__ import annotations

import json

import numpy as np
import pytest

import pathlens as pl
from pathlens.text.load import load
from tests.support import models

QUERY = "a funny film"
TEXTS = ["the movie was really funny .", "a man plays guitar . it is great !", "it is a great plot"]


@pytest.fixture(scope="module")
def model():
    return load(models.encoder("bert"))


def embed(model, text: str) -> list[float]:
    return pl.encode(model, [text], method="secant", unit="sentence").embeddings[0].tolist()


def check(facts, text: str, similarity: float) -> None:
    """Plain values that add up, with the characters they are about."""
    assert json.loads(json.dumps(facts)) == facts
    assert facts["similarity"] == pytest.approx(similarity, abs=1e-5) and facts["certificate"]["converged"]
    assert sum(score for *_, score in facts["spans"]) + facts["rest"] == pytest.approx(similarity, abs=1e-5)
    assert "".join(text[start:end] for start, end, _ in facts["spans"]) == text.replace(" ", "")
    assert not facts["notes"] or "the store says" not in " ".join(facts["notes"])


def similarity(model, text: str) -> float:
    a, b = (np.array(embed(model, each)) for each in (QUERY, text))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_a_langchain_retriever(model):
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    from pathlens.vectors.langchain import ExplainedRetriever

    class Vectors(Embeddings):
        def embed_documents(self, texts):
            return [embed(model, text) for text in texts]

        def embed_query(self, text):
            return embed(model, text)

    store = InMemoryVectorStore.from_texts(TEXTS, Vectors(), metadatas=[{"source": str(n)} for n in range(3)])
    plain = store.as_retriever(search_kwargs={"k": 2})
    explained = ExplainedRetriever(retriever=plain, encoder=model)
    before, after = plain.invoke(QUERY), explained.invoke(QUERY)
    assert [each.page_content for each in after] == [each.page_content for each in before] and len(after) == 2
    for document in after:
        assert set(document.metadata) == {"source", "why"}
        check(document.metadata["why"], document.page_content, similarity(model, document.page_content))
    assert all("why" not in document.metadata for document in plain.invoke(QUERY))  # the store's own are untouched


def test_a_llamaindex_postprocessor(model):
    from llama_index.core.schema import NodeWithScore, TextNode

    from pathlens.vectors.llamaindex import Explained

    nodes = [
        NodeWithScore(node=TextNode(text=text, metadata={"source": text[:3]}), score=similarity(model, text))
        for text in TEXTS
    ]
    explained = Explained(encoder=model).postprocess_nodes(nodes, query_str=QUERY)
    assert [(each.node.text, each.score) for each in explained] == [(each.node.text, each.score) for each in nodes]
    for each in explained:
        check(each.node.metadata["why"], each.node.text, similarity(model, each.node.text))
        assert "similarity" not in each.node.get_content(metadata_mode="llm")
    assert all("why" not in each.node.metadata for each in nodes)
    wrong = [NodeWithScore(node=TextNode(text=TEXTS[0]), score=-0.9)]
    (doubted,) = Explained(encoder=model).postprocess_nodes(wrong, query_str=QUERY)
    assert "the store says -0.9000" in doubted.node.metadata["why"]["notes"][-1]
    with pytest.raises(pl.InputError, match="depends on the query"):
        Explained(encoder=model).postprocess_nodes(nodes)
    assert Explained(encoder=model).postprocess_nodes([], query_str=QUERY) == []


@pytest.mark.parametrize("metric", ["cosine", "dot", "l2"])
def test_a_lancedb_table(model, tmp_path, metric):
    import lancedb

    from pathlens.vectors.lance import ask

    unit = [np.array(embed(model, text)) / np.linalg.norm(embed(model, text)) for text in TEXTS]
    rows = [{"text": text, "vector": vector.astype(np.float32)} for text, vector in zip(TEXTS, unit, strict=True)]
    table = lancedb.connect(str(tmp_path)).create_table("texts", rows)

    class Asked:
        """The table with its metric chosen, as an index of it would have."""

        def search(self, vector):
            return table.search(vector / np.linalg.norm(vector)).distance_type(metric)

    hits = ask(Asked(), model, QUERY, k=2)
    assert [hit.text for hit in hits] == sorted(TEXTS, key=lambda text: -similarity(model, text))[:2]
    for hit in hits:
        assert hit.given is not None
        check(hit.facts(), hit.text, similarity(model, hit.text))
    direct = pl.why(model, QUERY, Asked().search(np.array(embed(model, QUERY), dtype=np.float32)).limit(2).to_list())
    assert [hit.given for hit in direct] == pytest.approx([hit.given for hit in hits], abs=1e-5)
    with pytest.raises(pl.InputError, match="no column of this table; it has text"):
        ask(Asked(), model, QUERY, text="body")


def test_a_hook_for_training(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.evaluation import SequentialEvaluator

    from pathlens.text.builtin import minilm_folder
    from pathlens.vectors.evaluator import PairsEvaluator

    trained = SentenceTransformer(str(minilm_folder()), device="cpu").train()
    pairs = [("A man plays a guitar.", "Someone makes music."), ("How do I cook rice?", "The stock market fell.")]
    hook = PairsEvaluator(pairs, name="why")
    metrics = trained.evaluate(SequentialEvaluator([hook]), str(tmp_path))
    assert metrics["why_mean_rest"] < 0.1 and metrics["why_worst_gap"] < 1e-5 and trained.training
    (file,) = tmp_path.glob("why_pairs-*.jsonl")
    first, second = (json.loads(line) for line in file.read_text().splitlines())
    assert first["texts"] == list(pairs[0]) and first["top"][0][:2] == ["guitar", "music"]
    assert abs(second["top"][0][2]) < 0.02 < first["top"][0][2]
    with pytest.raises(pl.InputError, match="empty"):
        PairsEvaluator([])
