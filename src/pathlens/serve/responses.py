"""What is sent back: a finished task as JSON, as a page of its own, as a part of the page, as a picture; or why not."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pathlens.draw import page_of
from pathlens.serve.tasks import CANCELLED, DONE, Task

FORMATS = ("json", "html", "png", "fragment")


def reply(task: Task, form: str) -> Any:
    """A finished task in one of the formats."""
    from fastapi.responses import HTMLResponse, JSONResponse, Response

    from pathlens.draw.markup import article

    if task.state != DONE:
        code = 409 if task.state == CANCELLED else 500 if task.internal else 422
        return JSONResponse({"detail": task.error}, code)
    saved_as = {"Content-Disposition": f"attachment; filename=pathlens.{form}"}
    if form == "html":
        return HTMLResponse(task.result.to_html(), headers=saved_as)
    if form == "fragment":
        return HTMLResponse(str(article(page_of(task.result))))
    if form == "png":
        with tempfile.TemporaryDirectory() as folder:
            picture = task.result.to_png(Path(folder) / "view.png").read_bytes()
        return Response(picture, media_type="image/png", headers=saved_as)
    text = json.dumps(finite(task.result.to_dict()), ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), media_type="application/json")


def finite(value: Any) -> Any:
    """JSON has no NaN: a number that does not exist (an agreement of constants) is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, list | tuple) else value
