"""A named model's place on the shelf: there already, or on its way while the page is open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pathlens.serve.limits import Meter

PATIENCE = 0.1  # seconds between two looks at whether the job was called off


@dataclass(eq=False)
class Stand:
    """One model. `load` is called once, by the thread that fills the shelf, never by a request."""

    name: str
    load: Callable[[], Any] | None = None
    model: Any = None
    error: Exception | None = None
    there: threading.Event = field(default_factory=threading.Event, repr=False)

    @staticmethod
    def holding(name: str, model: Any) -> Stand:
        """A stand whose model is loaded already."""
        stand = Stand(name, model=model)
        stand.there.set()
        return stand

    @property
    def state(self) -> str:
        """loading, ready or failed."""
        return "failed" if self.error else "ready" if self.there.is_set() else "loading"

    def fill(self) -> None:
        """Load the model, or keep why it cannot be."""
        try:
            if self.load is not None:
                self.model = self.load()
        except Exception as error:  # told by whoever waits, and by the one who started the server
            self.error = error
        self.there.set()

    def take(self, meter: Meter) -> Any:
        """The model, waited for; a job that is called off waits no longer."""
        while not self.there.wait(PATIENCE):
            meter.stage = f"loading {self.name}"
            meter.count(0)
        meter.stage = ""
        if self.error is not None:
            raise self.error
        return self.model


def stands(models: Mapping[str, Any]) -> dict[str, Stand]:
    """Models or stands, by name → stands."""
    return {n: m if isinstance(m, Stand) else Stand.holding(n, m) for n, m in models.items()}


def fill_in_turn(
    shelf: Iterable[Stand], tell: Callable[[str], None], failed: Callable[[Exception], None]
) -> threading.Thread:
    """A thread that loads one model after the other, in the order named; the first failure ends it."""

    def work() -> None:
        for stand in shelf:
            tell(f"loading {stand.name} …")
            stand.fill()
            if stand.error is not None:
                failed(stand.error)
                return
        tell("ready")

    thread = threading.Thread(target=work, name="pathlens-loading", daemon=True)
    thread.start()
    return thread
