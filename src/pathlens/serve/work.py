"""From a body to work for the queue. A model is looked up by the name given at start, never loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pathlens.errors import InputError
from pathlens.serve.limits import Limits, Meter
from pathlens.serve.models import Stand

Work = Callable[[Meter], Any]


@dataclass(frozen=True, eq=False)
class Shelf:
    """The models named at start, by name; some may still be on their way."""

    models: Mapping[str, Stand]
    limits: Limits

    def take(self, name: str, meter: Meter) -> Any:
        """A model, watched by the meter; waited for while it is being loaded."""
        if name not in self.models:
            raise InputError(f"model {name!r} was not named at start; this server has {', '.join(self.models)}")
        model = self.models[name].take(meter)
        from pathlens.serve.watched import Watched

        return Watched(model, meter, self.limits)

    def explain(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.engine.explainer import explain

            return explain(
                self.take(body.model, meter), body.asked(), body.text_b, method=body.method, **body.choices()
            )

        return work

    def compare(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.studies.compare import compare

            others = [self.take(name, meter) for name in body.models or ()]
            choices = body.choices()
            if others:
                choices["unit"] = "word" if choices["unit"] == "token" else choices["unit"]
            return compare(self.take(body.model, meter), body.text, body.text_b, methods=body.methods or None,
                           baselines=body.baselines or None, models=others or None, **choices)  # fmt: skip

        return work

    def whatif(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.studies.whatif import whatif

            edits = None if body.edits is None else [(e.unit, e.kind, e.replacement) for e in body.edits]
            return whatif(self.take(body.model, meter), body.text, edits, text_b=body.text_b,
                          method=body.method or "ig", **body.choices())  # fmt: skip

        return work

    def path(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.studies.pathview import pathview

            return pathview(self.take(body.model, meter), body.text, body.text_b, methods=body.methods or None,
                            points=body.points, words=body.words, **body.choices())  # fmt: skip

        return work

    def layers(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.studies.layers import layers

            choices = {name: value for name, value in body.choices().items() if name != "layer"}
            return layers(self.take(body.model, meter), body.text, body.text_b, layers=body.layers,
                          method=body.method or "ig", **choices)  # fmt: skip

        return work

    def nodes(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.studies.nodes import nodes

            return nodes(self.take(body.model, meter), body.text, body.text_b, counts=tuple(body.counts),
                         method=body.method or "ig", **body.choices())  # fmt: skip

        return work

    def rank(self, body: Any) -> Work:
        def work(meter: Meter) -> Any:
            from pathlens.vectors.rank import rank

            choices = {k: v for k, v in body.choices().items() if k not in ("target", "score")}
            found = rank(self.take(body.model, meter), body.query, body.documents, top=body.top,
                         one_sided=body.one_sided, **choices)  # fmt: skip
            return found.with_reason(*body.why) if body.why else found

        return work
