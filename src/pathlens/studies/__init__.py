"""Several runs side by side (`pl.studies`): other words, other paths, other layers, other rules.

A study has the name of its file: the names below stand for the functions.
"""

from pathlens.studies.answer import answer
from pathlens.studies.compare import compare
from pathlens.studies.layers import layers
from pathlens.studies.nodes import nodes, softplus_curve
from pathlens.studies.pathview import pathview
from pathlens.studies.whatif import whatif
from pathlens.studies.zoom import zoom
from pathlens.text.softplus import softplus

__all__ = ["answer", "compare", "layers", "nodes", "pathview", "softplus", "softplus_curve", "whatif", "zoom"]
