"""A LangChain retriever whose documents say why they are there: `ExplainedRetriever(retriever=..., encoder="minilm")`."""

from __future__ import annotations

from typing import Any

from pathlens.errors import MissingError
from pathlens.vectors.why import why

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingError('this needs LangChain: pip install "pathlens[langchain]"') from error


class ExplainedRetriever(BaseRetriever):
    """The documents of another retriever, in its order; each one's metadata holds `why` (`Hit.facts`).

    encoder: the model that made the store's vectors. choices: as in `pl.why`.
    """

    retriever: Any
    encoder: Any
    choices: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        documents: list[Document] = self.retriever.invoke(query, config={"callbacks": run_manager.get_child()})
        if not documents:
            return []
        hits = why(self.encoder, query, documents, **self.choices)
        facts = [{**each.metadata, "why": hit.facts()} for each, hit in zip(documents, hits, strict=True)]
        return [each.model_copy(update={"metadata": known}) for each, known in zip(documents, facts, strict=True)]
