"""What the doctor writes down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pathlens.explanation.view import Viewable

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
class Diagnosis(Viewable):
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

    def to_page(self) -> Any:
        """The checks as a table."""
        from pathlens.draw.blocks import Listing, Page

        rows = tuple(
            (check.law, check.state, check.found + (f"\n→ {check.advice}" if check.advice else ""))
            for check in self.checks
        )
        count = {state: sum(check.state == state for check in self.checks) for state in MARKS}
        marks = tuple(MARKS[check.state] for check in self.checks)
        return Page(
            f"{self.model} ({self.kind}): {count[HOLDS]} hold, {count[FAILS]} fail, {count[LEFT_OUT]} left out",
            blocks=(Listing(("law", "", "what was found, and what to do"), rows, marks),),
            notes=(f"examined with the text {self.meta.get('text', '')!r}",),
        )
