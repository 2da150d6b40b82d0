"""What every result and every study can do: be saved, and be seen in the terminal, as a page, as a picture."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from pathlens.files import write_json


class Viewable:
    """Base of results and studies. The drawing room is imported when something is drawn, and knows how by type."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values: every field by its name."""
        from pathlens.explanation.store import plain_fields

        return plain_fields(self)

    def save(self, path: str | Path) -> Path:
        """Write JSON."""
        return write_json(path, self.to_dict())

    def show(self, **options: Any) -> None:
        """Draw in the terminal."""
        _drawing("terminal").show(self, **options)

    def to_html(self, path: str | Path | None = None, **options: Any) -> str:
        """A self-contained page (also written to `path`, when given)."""
        return str(_drawing("markup").document(self, path, **options))

    def to_png(self, path: str | Path, **options: Any) -> Path:
        """A picture; a path ending in .svg gives SVG, one in .pdf PDF."""
        return Path(_drawing("figure").save(self, path, **options))

    def _repr_html_(self) -> str:
        return str(_drawing("markup").fragment(self))


def _drawing(module: str) -> Any:
    """By name: the rooms know only those before them, and drawing comes after all that can be drawn."""
    return import_module(f"pathlens.draw.{module}")
