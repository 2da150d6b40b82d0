"""The rows of `make bench`, by name: `python -m benchmarks NAME` measures one of them alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from benchmarks.measure import Row


@dataclass(frozen=True)
class Entry:
    """A name, where its figures are made, and the section of the page they stand in."""

    name: str
    maker: str  # module:function; the function takes `quick` and gives rows
    section: str = "Beside the peers and the definitions"

    def make(self, quick: bool) -> list[Row]:
        module, function = self.maker.split(":")
        maker: Callable[[bool], list[Row]] = getattr(import_module(f"benchmarks.{module}"), function)
        return maker(quick)


ENTRIES = (
    Entry("ig", "gradients:sst2"),
    Entry("ig-lengths", "gradients:mixed_lengths"),
    Entry("ig-blocks", "gradients:blocks"),
    Entry("sig", "sequential:sig"),
    Entry("sig-ablation", "sequential:ablation"),
    Entry("dig", "sequential:dig"),
    Entry("udig-search", "word_paths:searches"),
    Entry("udig", "words:udig"),
    Entry("idg", "words:idg"),
    Entry("ij", "pairs:jacobians"),
    Entry("ih", "pairs:hessians"),
    Entry("vaig", "vectors:vaig"),
    Entry("next-token", "generators:next_token"),
    Entry("next-token-defaults", "generators:defaults"),
    Entry("next-token-nodes", "calibration:decoder_nodes"),
    Entry("secants", "secants:classifier"),
    Entry("secants-next-token", "secants:generator"),
    Entry("secants-pairs", "secants:pairs"),
    Entry("secants-known-query", "secants:known_query"),
    Entry("limit", "limit:limit", "Close to the limit"),
    Entry("growth", "growth:growth", "Growth"),
    Entry("memory", "memory:memory", "Memory"),
    Entry("startup", "startup:startup", "Start-up"),
)


def find(names: list[str]) -> list[Entry]:
    """Entries by name, in the table's order; none given: all."""
    known = [entry.name for entry in ENTRIES]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"benchmarks: no row is called {', '.join(unknown)}; rows: {', '.join(known)}")
    return [entry for entry in ENTRIES if not names or entry.name in names]
