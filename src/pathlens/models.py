"""Model kinds (`pl.models`): what a text is put to. For those who bring a model of their own, see docs/extending.md.

`examine` asks whether the laws hold on it.
"""

from pathlens.checks import option
from pathlens.doctor import examine
from pathlens.text.adapter import Case, Chosen, Request, TextModel, Wrapped
from pathlens.text.causal import CausalLM
from pathlens.text.dual import DualEncoder
from pathlens.text.heads import Answerer, Classifier, Tagger
from pathlens.text.load import load as load
from pathlens.text.options import ModelOptions
from pathlens.text.sentence import SentenceEncoder, SentenceTransformerEncoder
from pathlens.text.seq2seq import Seq2Seq
from pathlens.text.shifted import Shifted
from pathlens.text.tabular import Tabular
from pathlens.text.toy import ToyModel
from pathlens.types import Ends, Nodes, Route

__all__ = [  # all of it is at the door too; not `load`: `pl.load` reads a saved result
    "Answerer", "Case", "CausalLM", "Chosen", "Classifier", "DualEncoder", "Ends", "ModelOptions", "Nodes",
    "Request", "Route", "SentenceEncoder", "SentenceTransformerEncoder", "Seq2Seq", "Shifted", "Tabular",
    "Tagger", "TextModel", "ToyModel", "Wrapped", "examine", "option",
]  # fmt: skip
