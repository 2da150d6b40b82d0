"""Do the scores predict what the model does? The strongest units are put to the baseline together, and it is asked once more.

Adding up is a promise about the whole: the scores of a few words may still say little of what the model does without
them (docs/adding-up.md). This is the cheapest question that shows it, and it is about these units together, not about each.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathlens.types import brief

FEW = 3  # units put to the baseline together: a word, what turns it and what it is about; more is another text
HALF = 0.5  # of the larger: the smaller of two changes that agree is at least half of the other, with the same sign …
TENTH = 0.1  # … or they differ by less than this share of the scores at stake, which may cancel


@dataclass(frozen=True, repr=False)
class Belief:
    """What the scores predict for the strongest units together, and what the model does. On a result as `result.check`.

    `predicted` and `actual` are changes of the output when `units` are put to the baseline and all others stay; of a vector
    output they are lengths, and `difference` is the length of what lies between. They agree (`agrees`) when `difference` is at
    most `allowed`: half of the larger change, or a tenth of Σ|score| of these units, or the certificate's bound, whichever is
    most. Where nothing can be asked, `reason` says why and the numbers are 0.

    Limits: one question of many, about these units together: no single one was asked, and any of them may be far off however
    well the sum agrees ("not" and "bad"). That it disagrees says that what these words do together is not the sum of their scores.
    """

    units: tuple[str, ...] = ()  # strongest first
    predicted: float = 0.0
    actual: float = 0.0
    difference: float = 0.0
    allowed: float = 0.0
    passes: int = 0  # of the model, besides the certificate's
    reason: str = ""
    vector: bool = False  # the output is a vector, and the numbers are lengths

    def __repr__(self) -> str:
        if not self.applies:
            return brief(self, f"not asked: {self.reason}")
        verdict = "agrees" if self.agrees else "does NOT agree"
        ends = f"predicted {self.predicted:+.3g}, actual {self.actual:+.3g}"
        together = " together" if len(self.units) > 1 else ""
        return brief(self, verdict, f"{', '.join(map(repr, self.units))} at the baseline{together}", ends)

    @staticmethod
    def judge(
        units: tuple[str, ...],
        predicted: float,
        actual: float,
        *,
        weight: float,
        bound: float,
        passes: int,
        difference: float | None = None,
    ) -> Belief:
        """`weight`: Σ|score| of the units; `difference`: of vectors, whose lengths alone do not tell it."""
        off = abs(predicted - actual) if difference is None else difference
        allowed = max(HALF * max(abs(predicted), abs(actual)), TENTH * weight, bound)
        return Belief(units, predicted, actual, off, allowed, passes, vector=difference is not None)

    @property
    def applies(self) -> bool:
        """Was anything asked?"""
        return not self.reason

    @property
    def agrees(self) -> bool:
        """Does the model do what the scores predict? Also where nothing could be asked: then `applies` is False."""
        return self.difference <= self.allowed


def few_of(moving: int) -> int:
    """How many of so many moving units: at most half, for the whole text is what the certificate is about."""
    return min(FEW, moving // 2)
