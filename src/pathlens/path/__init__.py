"""Room 2: ends → route. Which way from the baseline to the text?"""

from pathlens.path.anchors import dig
from pathlens.path.cache import PathCache
from pathlens.path.graph import NeighbourGraph
from pathlens.path.line import line
from pathlens.path.settings import PRESETS, STRATEGIES, Settings
from pathlens.path.staircase import prefix, staircase
from pathlens.path.token_lines import token_lines
from pathlens.path.uniform import udig
from pathlens.path.word_path import TokenPath, WordPath, measured, word_approximation_error

__all__ = [
    "PRESETS",
    "STRATEGIES",
    "NeighbourGraph",
    "PathCache",
    "Settings",
    "TokenPath",
    "WordPath",
    "dig",
    "line",
    "measured",
    "prefix",
    "staircase",
    "token_lines",
    "udig",
    "word_approximation_error",
]
