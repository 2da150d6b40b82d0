"""What people give where several texts or targets are meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from pathlens.errors import InputError
from pathlens.text.chat import Chat, Prompt


def as_list(text: Any) -> Any:
    """Several texts as a list: of a pandas Series, a numpy array, a column of a data set, a tuple, a generator. One text, a
    chat, a picture and numbers (a row of a table) stay as they are."""
    if (names := getattr(text, "columns", getattr(text, "column_names", None))) is not None:
        listed = ", ".join(map(repr, list(names)[:6]))
        raise InputError(f"a whole table was given; give the column with the texts, table[name], of {listed}")
    kind = getattr(getattr(text, "dtype", None), "kind", "")
    if kind in ("U", "O") and getattr(text, "shape", None) == ():  # numpy's, around one text
        text = text.item()
    if hasattr(text, "to_pylist"):  # pyarrow's, whose items are no strings
        text = text.to_pylist()
    one = isinstance(text, str | bytes | list | Mapping | Chat | Prompt | torch.Tensor)
    if one or not isinstance(text, Iterable) or kind in ("i", "u", "f", "b"):
        return text
    each = list(text)
    texts = all(isinstance(item, str | Chat | Prompt) for item in each)
    return each if texts or not isinstance(text, tuple) else text


def is_column(target: Any) -> bool:
    """Targets of several texts that are no list: an array, a Series, a tuple of labels. (2, "LOC") is one tag."""
    column = hasattr(target, "tolist") and getattr(target, "ndim", 0) == 1
    return column or (isinstance(target, tuple) and len(target) > 1 and all(isinstance(each, str) for each in target))
