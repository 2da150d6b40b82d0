"""Model kinds (`pl.models`): what a text is put to. For those who bring a model of their own, see docs/extending.md."""

from pathlens.text.adapter import Case, Request, TextModel
from pathlens.text.dual import DualEncoder
from pathlens.text.load import load
from pathlens.text.sentence import SentenceEncoder, Shifted
from pathlens.text.tabular import Tabular
from pathlens.text.toy import ToyModel

__all__ = ["Case", "DualEncoder", "Request", "SentenceEncoder", "Shifted", "Tabular", "TextModel", "ToyModel", "load"]
