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


def test_the_page_shows_the_rows_of_the_last_exam():
    """Every question has its row, of full size, and holds: one that was never sat is no "held"."""
    rows, asked = exam.kept(), [(q.part, q.fault, q.place) for q in exam.QUESTIONS]
    assert [(row.part, row.fault, row.place) for row in rows] == asked
    assert all((row.size, row.state) == ("full", "held") for row in rows)
    for part in exam.HEADS:
        assert exam.table(rows, part) in exam.PAGE.read_text(encoding="utf-8")
