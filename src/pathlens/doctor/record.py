"""What the doctor writes down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pathlens.errors import StoreError

HOLDS, FAILS, LEFT_OUT = "holds", "fails", "left out"
MARKS = {HOLDS: "✓", FAILS: "✗", LEFT_OUT: "·"}


@dataclass(frozen=True)
class Check:
    """One law: its state, what was measured, and what to do when it does not hold."""

    law: str
    state: str  # "holds", "fails" or "left out"
    found: str
    advice: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Diagnosis:
    """All checks of one model."""

    model: str
    kind: str
    checks: tuple[Check, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Does every law that was tried hold?"""
        return all(check.state != FAILS for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        checks = [asdict(check) for check in self.checks]
        return {"model": self.model, "kind": self.kind, "healthy": self.healthy, "checks": checks,
                "meta": dict(self.meta)}  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write JSON."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), ensure_ascii=False, indent=1), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
        return Path(path)

    def listing(self) -> Any:
        """The checks as a table to draw."""
        from pathlens.draw.listing import Listing

        rows = tuple(
            (check.law, check.state, check.found + (f"\n→ {check.advice}" if check.advice else ""))
            for check in self.checks
        )
        count = {state: sum(check.state == state for check in self.checks) for state in MARKS}
        summed = f"{count[HOLDS]} hold, {count[FAILS]} fail, {count[LEFT_OUT]} left out"
        return Listing(
            f"{self.model} ({self.kind}): {summed}",
            ("law", "", "what was found, and what to do"),
            rows,
            tuple(MARKS[check.state] for check in self.checks),
            notes=(f"examined with the text {self.meta.get('text', '')!r}",),
        )

    def show(self) -> None:
        """Print the table."""
        from pathlens.draw import listing

        listing.show(self.listing())

    def to_html(self, path: str | Path | None = None) -> str:
        """A self-contained page."""
        from pathlens.draw import listing

        return listing.page(self.listing(), path)

    def to_png(self, path: str | Path) -> Path:
        """A picture."""
        from pathlens.draw import canvas, listing

        return canvas.save(listing.figure(self.listing()), path)
