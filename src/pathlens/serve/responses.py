"""What is sent back: a model's description, a finished job in one of the formats."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pathlens.serve import views
from pathlens.serve.jobs import CANCELLED, DONE
from pathlens.serve.models import Stand


def describe(stand: Stand) -> dict[str, Any]:
    """What a page needs to know of a model to offer choices; little while it is on its way."""
    model, known = stand.model, {"name": stand.name, "state": stand.state}
    if model is None:
        return {**known, "kind": "", "pair": False, "labels": [], "layers": 0, "generator": False}
    config = getattr(getattr(model, "module", None), "config", None)
    labels = (
        getattr(config, "id2label", None) if model.kind in ("sequence classification", "token classification") else None
    )
    depth = getattr(getattr(model, "network", None), "depth", 0)
    names = [str(labels[k]) for k in sorted(labels)][:200] if labels else []
    return {
        **known,
        "kind": model.kind,
        "pair": model.two_texts_are_a_pair(),
        "labels": names,
        "layers": depth,
        "generator": "generate" in model.options,
    }


def reply(job: Any, form: str) -> Any:
    """A finished job in one of the formats."""
    from fastapi.responses import HTMLResponse, JSONResponse, Response

    if job.state != DONE:
        code = 409 if job.state == CANCELLED else 500 if job.internal else 422
        return JSONResponse({"detail": job.error}, code)
    if form == "html":
        return HTMLResponse(
            views.page(job.result), headers={"Content-Disposition": "attachment; filename=pathlens.html"}
        )
    if form == "fragment":
        return HTMLResponse(str(views.article(job.result)))
    if form == "png":
        picture = views.png(job.result)
        return Response(
            picture, media_type="image/png", headers={"Content-Disposition": "attachment; filename=pathlens.png"}
        )
    text = json.dumps(finite(job.result.to_dict()), ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def finite(value: Any) -> Any:
    """JSON has no NaN: a number that does not exist (an agreement of constants) is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value
