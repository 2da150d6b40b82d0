"""What a study of several runs shares with a result: saved as JSON, drawn in the terminal, as a page, as a picture."""

from __future__ import annotations

from abc import abstractmethod
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from pathlens.files import write_json


class Seen:
    """`drawer` names the module of the drawing room that knows how (with `show`, `article`, `page` and `save`)."""

    drawer: ClassVar[str]

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values."""

    def save(self, path: str | Path) -> Path:
        """Write JSON."""
        return write_json(path, self.to_dict())

    def show(self, **options: Any) -> None:
        """Draw in the terminal."""
        self._draw().show(self, **options)

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page."""
        return self._draw().page(self, path)

    def _repr_html_(self) -> str:
        from pathlens.draw.sheet import fragment

        return fragment(self._draw(), self)

    def to_png(self, path: str | Path) -> Path:
        """A picture."""
        return self._draw().save(self, path)

    def _draw(self) -> Any:
        return import_module(f"pathlens.draw.{self.drawer}")
