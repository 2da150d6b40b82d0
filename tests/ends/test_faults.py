"""The exam of faults at small size; `make faults` sits it at full size. What cannot be broken here fails, it is not skipped."""

from __future__ import annotations

import pytest

from tests.faults import exam

NAMES = [f"{question.fault} · {question.place}" for question in exam.QUESTIONS]


@pytest.mark.slow
@pytest.mark.parametrize("question", exam.QUESTIONS, ids=NAMES)
def test_nothing_is_lost_nothing_doubled_and_one_line_is_said(question, tmp_path):
    row = exam.asked(question, "small", tmp_path)
    assert row.state == "held", row.line
