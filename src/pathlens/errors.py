"""One small tree of errors. Each says what came, what was expected, and what to do.

PathlensError
├── InputError        (also ValueError)  the text, target, baseline, unit or option cannot be used
│   └── TooLongError                     the text is longer than the model takes
├── ModelError        (also ValueError)  the model or its tokenizer cannot be used
│   ├── NumberError                      the model gives NaN or infinity
│   └── SecantError                      an operation cannot be followed from the baseline's run to the text's
├── MissingError      (also ImportError) a package or a built-in model is not installed
└── StoreError        (also OSError)     a file cannot be read or written

ConvergenceWarning    the tolerance was not met; the result says so too
CurvatureWarning      second derivatives were asked of a piecewise linear (ReLU) model
"""

from collections.abc import Callable
from typing import Any, Self, TypeVar

T = TypeVar("T")


class PathlensError(Exception):
    """Root of every error raised on purpose.

    The message speaks to whoever writes Python. `plain` says the same to somebody who chose in a form and knows no
    names of a program, and `option` is the choice that it is about; None where nothing was written for them.
    """

    plain: str | None = None
    option: str | None = None

    def plainly(self, words: str, option: str | None = None) -> Self:
        """The same error, with words for a form."""
        self.plain, self.option = words, option
        return self


class InputError(PathlensError, ValueError):
    """The text, target, baseline, unit or option cannot be used."""


class TooLongError(InputError):
    """The text is longer than the model takes."""


class ModelError(PathlensError, ValueError):
    """The model or its tokenizer cannot be used."""


class NumberError(ModelError):
    """The model gives NaN or infinity."""

    plain = "The model gives no finite number here. Try another text, or another baseline."


class SecantError(ModelError):
    """An operation has no mean derivative between the baseline's run and the text's; the message names it."""

    plain = "Secants cannot follow one of this model's operations. Choose another method."
    option = "method"


class MissingError(PathlensError, ImportError):
    """A package or a built-in model is not installed; the message has the command that brings it."""


class StoreError(PathlensError, OSError):
    """A file cannot be read or written: `what` is the matter, and what to do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.what = what


def or_error(make: Callable[..., T], *given: Any, **named: Any) -> T | Exception:
    """What was made, or why not: one bad text must not end the others; the caller decides what to do with it."""
    try:
        return make(*given, **named)
    except Exception as error:
        return error


def first_line(error: BaseException) -> str:
    """What an error of another library says, short enough to stand inside ours; its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


class ConvergenceWarning(UserWarning):
    """The tolerance was not met; the message says what to do."""

    plain = (
        "The numbers did not settle within the tolerance. Try another method or baseline, or allow a larger tolerance."
    )


class CurvatureWarning(UserWarning):
    """Second derivatives were asked of a piecewise linear (ReLU) model; the message says what to do."""

    plain = "This model is made of straight pieces, so that its words' interactions are nearly all zero or rough."
