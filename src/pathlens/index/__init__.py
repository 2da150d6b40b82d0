"""An index that explains itself: embeddings and token vectors written once, hits with their reasons ever after."""

from pathlens.index.build import build
from pathlens.index.search import Index

__all__ = ["Index", "build"]
