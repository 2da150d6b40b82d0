"""An index that explains itself: embeddings and token vectors written once, hits with their reasons ever after."""

from pathlens.vectors.index.build import build
from pathlens.vectors.index.search import Index

__all__ = ["Index", "build"]
