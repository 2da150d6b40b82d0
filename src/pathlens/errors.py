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

import re
from collections.abc import Callable
from typing import Any, Self, TypeVar

T = TypeVar("T")
# what is around an option in a message, and around what only Python can do: Unicode keeps these out of every text, so
# that nothing a user wrote is ever read as an option
OPEN, CLOSE, ONLY_PYTHON = "\ufdd0", "\ufdd1", "\ufdd2"


def setting(*written: str, **named: Any) -> str:
    """An option inside a message, which the command line writes as a flag: `setting(layer=2)` is "layer=2" to Python.

    `written`: one whose value is no Python object, as "dtype=torch.float32" or "tree=...".
    """
    spelt = [*written, *(f"{name}={value!r}" for name, value in named.items())]
    return ", ".join(f"{OPEN}{each}{CLOSE}" for each in spelt)


def python_only(words: str) -> str:
    """Words inside a message that say what the command line cannot do; it leaves them out."""
    return f"{ONLY_PYTHON}{words}{CLOSE}"


class _Message:
    """A message for whoever writes Python; as it was composed, with its options marked, it is in `marked`."""

    def __init__(self, *words: Any) -> None:
        self.marked = str(words[0]) if words else ""
        super().__init__(
            *(re.sub(f"[{OPEN}-{ONLY_PYTHON}]", "", each) if isinstance(each, str) else each for each in words)
        )


class PathlensError(_Message, Exception):
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


class ConvergenceWarning(_Message, UserWarning):
    """The tolerance was not met; the message says what to do."""

    plain = (
        "The numbers did not settle within the tolerance. Try another method or baseline, or allow a larger tolerance."
    )


class CurvatureWarning(_Message, UserWarning):
    """Second derivatives were asked of a piecewise linear (ReLU) model; the message says what to do."""

    plain = "This model is made of straight pieces, so that its words' interactions are nearly all zero or rough."
