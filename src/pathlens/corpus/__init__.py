"""A whole corpus → Parquet files, on one machine or many; and what they say, summed up.

>>> from pathlens.corpus import Source, run, summarise
>>> run("sentiment", Source("reviews.csv", text="review"), "out/reviews", method="ig")
>>> summarise("out/reviews").show()

`formats → reading → job (checked, planned) → execute (this process, workers, cluster) → folder of shards → summary`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what an editor and a type checker see; `_DOOR` says the same to Python
    from pathlens.corpus.execute import run as run
    from pathlens.corpus.folder import is_run as is_run
    from pathlens.corpus.folder import results as results
    from pathlens.corpus.formats import Source as Source
    from pathlens.corpus.job import plan as plan
    from pathlens.corpus.summary import report as report
    from pathlens.corpus.summary import summarise as summarise

_DOOR = {
    "Source": "pathlens.corpus.formats",
    "run": "pathlens.corpus.execute",
    "plan": "pathlens.corpus.job",
    "results": "pathlens.corpus.folder",
    "is_run": "pathlens.corpus.folder",
    "summarise": "pathlens.corpus.summary",
    "report": "pathlens.corpus.summary",
}
__all__ = list(_DOOR)


if not TYPE_CHECKING:  # a checker that saw this would take any misspelt name for one of the room's

    def __getattr__(name: str) -> Any:
        if name not in _DOOR:
            raise AttributeError(f"module 'pathlens.corpus' has no attribute {name!r}")
        return getattr(import_module(_DOOR[name]), name)
