"""Several runs side by side (`pl.studies`): other words, paths, layers, rules, scores beside the model's, an exact encoder.

A study has the name of its file: the names below stand for the functions.
"""

from pathlens.path.words.store import PathCache
from pathlens.studies.answer import answer
from pathlens.studies.compare import compare
from pathlens.studies.exact import exact
from pathlens.studies.layers import layers
from pathlens.studies.nodes import nodes, softplus_curve
from pathlens.studies.pathview import pathview
from pathlens.studies.whatif import whatif
from pathlens.studies.zoom import zoom
from pathlens.text.softplus import softplus
from pathlens.vectors.hybrid import BM25, SparseTerms, hybrid

__all__ = [
    "BM25", "PathCache", "SparseTerms", "answer", "compare", "exact", "hybrid", "layers", "nodes", "pathview",
    "softplus", "softplus_curve", "whatif", "zoom",
]  # fmt: skip
