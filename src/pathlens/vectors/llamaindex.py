"""A LlamaIndex postprocessor that says why each node is there: `Explained(encoder="minilm")` among the postprocessors."""

from __future__ import annotations

from typing import Any

from pathlens.errors import InputError, MissingError
from pathlens.vectors.why import why

try:
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore, QueryBundle
except ImportError as error:
    raise MissingError('this needs LlamaIndex: pip install "pathlens[llamaindex]"') from error


class Explained(BaseNodePostprocessor):
    """The nodes as they came, in their order; each one's metadata holds `why` (`Hit.facts`).

    encoder: the model that made the index's vectors. choices: as in `pl.why`. What is read is the node's own text, and
    `why` stays out of what later steps embed or show to a language model.
    """

    encoder: Any
    choices: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def class_name(cls) -> str:
        return "PathlensExplained"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InputError("why a node was found depends on the query: pass query_str or query_bundle")
        if not nodes:
            return []
        both = [(each.node.get_content(), each.score) for each in nodes]
        texts = [text if score is None else (text, score) for text, score in both]
        explained = []
        for each, hit in zip(nodes, why(self.encoder, query_bundle.query_str, texts, **self.choices), strict=True):
            node = each.node.model_copy(update={"metadata": {**each.node.metadata, "why": hit.facts()}})
            for excluded in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys"):
                setattr(node, excluded, [*getattr(node, excluded), "why"])
            explained.append(NodeWithScore(node=node, score=each.score))
        return explained
