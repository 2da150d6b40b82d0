"""The models named at start: each in its slot, there already or on its way while the page is open.

A request gets a model by its name, watched: every pass is counted, every text bounded. None is ever loaded for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathlens.errors import InputError
from pathlens.serve.offers import offers
from pathlens.serve.tasks import Meter, ServerLimits
from pathlens.text.options import refuse_slip

if TYPE_CHECKING:
    from pathlens.text.adapter import Case, Probabilities, TextModel

NOTHING: dict[str, Any] = {"kind": "", "views": [], "labels": [], "defaults": {}}  # of a model on its way
PATIENCE = 0.1  # seconds between two looks at whether the task was called off


@dataclass(eq=False)
class ModelSlot:
    """One model. `load` is called once, by the thread that fills the slots, never by a request."""

    name: str
    load: Callable[[], Any] | None = None
    model: Any = None
    error: Exception | None = None
    there: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        if self.load is None:
            self.there.set()

    @property
    def state(self) -> str:
        """loading, ready or failed."""
        return "failed" if self.error else "ready" if self.there.is_set() else "loading"

    def fill(self) -> None:
        """Load the model, or keep why it cannot be."""
        try:
            if self.load is not None:
                self.model = self.load()
        except Exception as error:  # raised again for whoever waits, and for the one who started the server
            self.error = error
        self.there.set()

    def take(self, meter: Meter) -> Any:
        """The model, waited for; a task that is called off waits no longer."""
        while not self.there.wait(PATIENCE):
            meter.stage = f"loading {self.name}"
            meter.count(0)
        meter.stage = ""
        if self.error is not None:
            raise self.error
        return self.model

    def to_dict(self) -> dict[str, Any]:
        """What a page needs to know to offer choices; little while the model is on its way."""
        return {"name": self.name, "state": self.state, **(NOTHING if self.model is None else self.offered)}

    @cached_property
    def offered(self) -> dict[str, Any]:
        return offers(self.model)


class Models:
    """All slots, by name."""

    def __init__(self, models: Mapping[str, Any], limits: ServerLimits) -> None:
        self.limits = limits
        self.slots = {n: m if isinstance(m, ModelSlot) else ModelSlot(n, model=m) for n, m in models.items()}

    @staticmethod
    def named(names: Sequence[str]) -> dict[str, ModelSlot]:
        """Name → a slot, still empty; a folder is known by its last part, so that no path leaves the machine."""
        slots: dict[str, ModelSlot] = {}
        for name in names:
            refuse_slip(name)  # before an address is announced that nobody will answer
            short = Path(name).resolve().name if Path(name).is_dir() else name
            if short in slots:
                raise InputError(f"two models are called {short!r}; give folders with different names")
            slots[short] = ModelSlot(short, load=partial(_load, name))
        return slots

    def check(self, name: str) -> None:
        if name not in self.slots:
            raise InputError(f"model {name!r} was not named at start; this server has {', '.join(self.slots)}").plainly(
                f"This server has no model {name}; it has {', '.join(self.slots)}.", "model"
            )

    def take(self, name: str, meter: Meter) -> TextModel:
        """A model, watched by the meter; waited for while it is being loaded."""
        self.check(name)
        return _watched(self.slots[name].take(meter), meter, self.limits)

    def fill(self, tell: Callable[[str], None], failed: Callable[[Exception], None]) -> threading.Thread:
        """A thread that loads one model after the other, in the order named; the first failure ends it."""

        def work() -> None:
            for slot in self.slots.values():
                tell(f"loading {slot.name} …")
                slot.fill()
                if slot.error is not None:
                    failed(slot.error)
                    return
            tell("ready")

        thread = threading.Thread(target=work, name="pathlens-loading", daemon=True)
        thread.start()
        return thread


def _load(name: str) -> Any:
    from pathlens.text.load import load

    return load(name)


@dataclass(frozen=True)
class _Counted:
    """A case's score that counts first; equal when score and meter are, so batches are still shared."""

    score: Any
    meter: Meter

    def __call__(self, points: Any, cases: Sequence[Case]) -> Any:
        self.meter.count(len(points))
        return self.score(points, cases)


def _watched(model: TextModel, meter: Meter, limits: ServerLimits) -> TextModel:
    """A model with a meter on its every pass and a bound on its texts."""
    from pathlens.text.adapter import Request, Wrapped  # with torch, which the page does not wait for

    class Watched(Wrapped):
        def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
            meter.count(0)
            case = super().case(text, text_b, request=request)
            if len(case) > limits.units:
                raise InputError(f"the text has {len(case)} tokens; this server takes up to {limits.units}").plainly(
                    f"The text has {len(case)} tokens, and this server takes up to {limits.units}. Shorten it, or explain its "
                    "parts one by one.",
                    "text",
                )
            return replace(case, score=_Counted(case.score, meter), pack=(case.pack, id(meter)))

        def says(self, cases: Sequence[Case]) -> list[Probabilities | None]:
            bare = (each.score.score if isinstance(each.score, _Counted) else each.score for each in cases)
            return super().says([replace(case, score=score) for case, score in zip(cases, bare, strict=True)])

        @contextmanager
        def itself(self) -> Iterator[TextModel]:
            """The model without its wrapper, for work that asks for its kind; a hook counts its passes meanwhile."""
            whole, blocks = self.inner.whole(), getattr(getattr(self.inner, "network", None), "blocks", [])
            hooks = [] if whole is None else [whole.register_forward_pre_hook(lambda *_: meter.count(1))]
            for k, block in enumerate(blocks):  # a long pass is watched, and ended, inside
                hooks.append(block.register_forward_pre_hook(lambda *_, k=k: meter.enter(k + 1, len(blocks))))
            try:
                yield self.inner
            finally:
                for hook in hooks:
                    hook.remove()

    return Watched(model)
