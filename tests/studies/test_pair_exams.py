"""The exams of pairs: what they read from their files, and how links are counted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments import pair_exam_data as data
from experiments import pair_exam_tables as tables

WA = """<sentence id="1" status="">
// a dog runs fast
// the dog sleeps
<source>
1 a :
2 dog :
3 runs :
4 fast :
</source>
<translation>
1 the :
2 dog :
3 sleeps :
</translation>
<alignment>
1 2 <==> 1 2 // EQUI // 5 // a dog <==> the dog
3 <==> 3 // OPPO // 2 // runs <==> sleeps
4 <==> 0 // NOALI // 0 // fast <==> -not aligned-
</alignment>
</sentence>
"""


@pytest.fixture
def folder(tmp_path):
    for name in ("ists", "span-similarity", "word-alignment", "multispanqa"):
        (tmp_path / name).mkdir()
    for name in ("headlines", "images", "answers-students"):
        (tmp_path / "ists" / f"STSint.input.{name}.wa").write_text(WA)
    marked = "premise\thypothesis\tspan_similarity\tx\nA {{small}} dog {{runs}}.\tA {{big}} dog {{goes}}.\t0,1\t0\n"
    (tmp_path / "span-similarity" / "span_similarity_dataset_v1.0.0.tsv").write_text(marked)
    for name in ("mtref", "wiki"):
        line = "0:0\ta dog runs\tN/A\tdogs run\tN/A\t1\t1\t1-0 2-1\t0-0\t\n"
        (tmp_path / "word-alignment" / f"{name}-dev.tsv").write_text(line)
    row = {"id": "q", "question": ["who"], "context": "He came . Ann left .".split(), "label": list("OOOBOO")}
    (tmp_path / "multispanqa" / "valid-first-half.json").write_text(json.dumps({"data": [row]}))
    return tmp_path


def test_units_are_the_characters_people_marked(folder):
    (spans,) = data.spans(folder)
    assert [spans.texts[0][s:e] for s, e in spans.units[0]] == ["small", "runs"] and spans.labels == (0, 1)
    words = data.words(folder)[0]
    assert [words.texts[1][s:e] for s, e in words.units[1]] == ["dogs", "run"]
    assert set(words.gold) == {(1, 0), (2, 1), (0, 0)}
    chunks = data.chunks(folder)[0]
    assert [chunks.texts[0][s:e] for s, e in chunks.units[0]] == ["a dog", "runs", "fast"]
    assert chunks.gold == ((0, 0), (1, 1)) and len(chunks.units[1]) == 2
    (question,) = data.questions(folder, lambda text: [(0, 9), (10, len(text))])
    assert question.gold == (False, True) and question.passage[10:] == "Ann left ."


def test_links_are_counted_as_by_hand():
    choices = [([[0, 0, 0.9], [1, 2, 0.2]], {(0, 0), (1, 1)}, 2), ([[0, 0, 0.5]], {(0, 0)}, 1)]
    assert tables.link_f1(choices, 0.0) == pytest.approx(2 * 2 / (3 + 3))
    assert tables.link_f1(choices, 0.4) == pytest.approx(2 * 2 / (2 + 3))
    assert tables.best([0.2, 0.5, 0.9], lambda t: tables.link_f1(choices, t)) > 0.2


def test_auc_and_f1_at_the_ends():
    wanted = np.array([True, True, False])
    assert tables.above(np.array([3.0, 2.0, 1.0]), wanted) == 1 and tables.above(np.zeros(3), wanted) == 0.5
    assert tables.f1(wanted, wanted) == 1 and tables.f1(~wanted, wanted) == 0
