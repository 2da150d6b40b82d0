"""A model given by name is loaded as the choices say, whatever is asked of it."""

from __future__ import annotations

import numpy as np
import pytest

import pathlens as pl
from pathlens.vectors.lance import ask
from tests.support import models

TEXT, OTHER = "the movie was not really funny", "a great plot"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A classifier and an encoder with nothing that says how it pools, saved."""
    made = {}
    for name, pair in (("classifier", models.classifier("bert")), ("encoder", models.encoder("bert"))):
        made[name] = str(tmp_path_factory.mktemp(name))
        for part in pair:
            part.save_pretrained(made[name])
    return made


STUDIES = {
    "explain": lambda m, **how: [pl.explain(m, TEXT, **how)],
    "compare": lambda m, **how: pl.compare(m, TEXT, methods=["ig", "secant"], **how).results,
    "whatif": lambda m, **how: [pl.whatif(m, TEXT, **how).explanation],
    "layers": lambda m, **how: pl.layers(m, TEXT, layers=[0, 1], **how).results,
    "nodes": lambda m, **how: [pl.nodes(m, TEXT, counts=[4], rules=["gauss"], **how).explanation],
}


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_of_a_folder_takes_its_precision(folders, study):
    results = STUDIES[study](folders["classifier"], dtype="float64", device="cpu", check=False)
    assert {result.origin.dtype for result in results} == {"float64"}


def test_studies_without_a_result_take_it_too(folders):
    double, single = ({"dtype": each, "device": "cpu"} for each in ("float64", "float32"))
    for look in (
        lambda how: np.array(
            pl.pathview(folders["classifier"], TEXT, methods=["ig"], points=3, **how).tracks[0].output
        ),
        lambda how: (
            pl.evaluate(folders["classifier"], [TEXT, OTHER], methods=["sig"], draws=2, **how).columns[0].values
        ),
        lambda how: np.array([point.gap for point in pl.softplus_curve(folders["classifier"], OTHER, [2.0], **how)]),
    ):
        fine, coarse = look(double), look(single)
        assert np.isfinite(fine).all() and np.allclose(fine, coarse, atol=1e-3) and not np.array_equal(fine, coarse)


class Rows:
    """A table that is searched, and keeps what it was asked."""

    def search(self, vector):
        self.vector = np.asarray(vector)
        return self

    def limit(self, k):
        return self

    def to_list(self):
        return [{"text": OTHER}]


def test_vectors_of_a_folder_are_pooled_as_asked(folders):
    """Also the query's, which a store is searched with."""
    for how in ("cls", "mean"):
        vectors = pl.encode(folders["encoder"], [TEXT, OTHER], pooling=how, method="secant")
        wanted = vectors.pair(0, 1).similarity
        ranked = pl.rank(folders["encoder"], TEXT, [OTHER], pooling=how, method="secant")
        reasons, table = pl.why(folders["encoder"], TEXT, [OTHER], pooling=how), Rows()
        asked = ask(table, folders["encoder"], TEXT, pooling=how)
        assert [each[0].similarity for each in (reasons, asked)] == pytest.approx([wanted] * 2, abs=1e-5)
        assert ranked[0].score == pytest.approx(wanted, abs=1e-5)
        assert table.vector == pytest.approx(vectors.embeddings[0], abs=1e-5)
