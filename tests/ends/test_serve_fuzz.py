"""The API fuzzed from its own schema: whatever is sent, the answer is one the schema names, never a crash."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

import pathlens as pl
from pathlens.serve.app import make_app
from pathlens.serve.tasks import ServerLimits
from pathlens.text.load import load
from tests.support.models import classifier

app = make_app({"toy": pl.ToyModel()}, limits=ServerLimits(waiting=4, units=64))
classifying = make_app({"tiny": load(classifier("bert"))})
schema = schemathesis.openapi.from_asgi("/api/openapi.json", app)


CHECKS = [checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance]
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@schema.parametrize()
@settings(max_examples=5, **QUIET)
def test_no_request_breaks_the_server(case):
    case.call_and_validate(checks=CHECKS)


@pytest.mark.slow
@schema.parametrize()
@settings(max_examples=80, **QUIET)
def test_many_requests_do_not_break_the_server(case):
    case.call_and_validate(checks=CHECKS)


@pytest.mark.parametrize("target", ["all", ["all"], [0, 1], []], ids=str)
@pytest.mark.parametrize("verb", ["explain", "compare", "whatif", "path", "layers", "nodes"])
def test_several_targets_are_an_answer_or_a_refusal(verb, target):
    """Of a model that has classes, as the toy has none: only `explain` answers about all of them."""
    from starlette.testclient import TestClient

    body = {"model": "tiny", "text": "the movie was not funny", "n_steps": 2, "target": target}
    body |= {"methods": ["ig", "sig"]} if verb == "compare" else {}
    answer = TestClient(classifying, raise_server_exceptions=False).post(f"/api/{verb}", json=body)
    assert answer.status_code == (200 if (verb, target) == ("explain", "all") else 422), answer.text
    if target == "all" and verb != "explain":
        assert "takes one target, not several" in answer.json()["detail"]
        assert answer.json()["words"] == "Choose one class: LABEL_0, LABEL_1, LABEL_2."


@pytest.mark.parametrize("text", ["a", "日本語 の 文", "\u202eabc", "\x00 x", "🙂" * 30, "a\nb\r\n c", "]]>&<!--"])
def test_odd_texts_are_answered(text):
    from starlette.testclient import TestClient

    answer = TestClient(app).post("/api/explain", json={"model": "toy", "text": text})
    assert answer.status_code in (200, 422), answer.text
