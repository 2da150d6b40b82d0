"""Every kind of model with every head: right, or refused in one line; never a wrong number, never a foreign error."""

from __future__ import annotations

import pytest

from tests.support import sweep

KEPT = {(row.kind, row.head): row for row in sweep.kept()}


@pytest.mark.slow
@pytest.mark.parametrize("name, head", sweep.configurations())
def test_a_configuration_equals_a_plain_loop_or_is_refused(name, head):
    row = sweep.examined(name, head)
    assert row.state in ("holds", "refused", "not built"), row
    before = KEPT[name, head].state
    assert before != "holds" or row.state == "holds", f"docs/models.md says that it holds: {row}"


def test_the_page_says_what_the_rows_say():
    assert set(KEPT) == set(sweep.configurations())
    assert sum(row.state == "holds" for row in KEPT.values()) >= 120
    assert sweep.table(list(KEPT.values())) in sweep.PAGE.read_text()
