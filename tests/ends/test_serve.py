"""The API: what it answers, what it refuses, and that a job can be watched and called off."""

from __future__ import annotations

import inspect
import re
import threading
import time
import warnings
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import pathlens as pl
from pathlens.checks import option_names, options_of
from pathlens.engine.options import LEAST_NODES, Accuracy, AnswerOptions, options
from pathlens.explanation.store import from_dict
from pathlens.path.words.options import STRATEGIES
from pathlens.serve.app import FILES, make_app
from pathlens.serve.guard import POLICY
from pathlens.serve.requests import REQUESTS
from pathlens.serve.tasks import ServerLimits
from pathlens.text.load import load
from pathlens.text.options import GeneratorOptions, PromptedOptions
from pathlens.types import RULES, TEXT_UNITS
from tests.rooms.test_chat import generator
from tests.support.models import classifier, encoder

TEXT = "the movie was not really funny , but moving ."
STATIC = Path(pl.__file__).parent / "serve/static"


class Held(pl.ToyModel):
    """A toy whose every pass waits until it may go on."""

    name = "slow"
    go = threading.Event()

    def case(self, text, text_b=None, *, request):
        from dataclasses import replace

        case = super().case(text, text_b, request=request)

        def score(points, cases):
            assert self.go.wait(900)
            return case.score(points, cases)

        return replace(case, score=score, pack=score)


@pytest.fixture(scope="module")
def models():
    return {
        "toy": pl.ToyModel(),
        "tiny": load(classifier("bert")),
        "encoder": load(encoder("bert")),
        "slow": Held(),
        "writer": load(generator()),
    }


@pytest.fixture(scope="module")
def client(models):
    from starlette.testclient import TestClient

    with TestClient(make_app(models, limits=ServerLimits(waiting=3, units=40))) as made:
        yield made


def test_health_and_methods(client):
    facts = client.get("/api/health").json()
    assert [m["name"] for m in facts["models"]] == ["toy", "tiny", "encoder", "slow", "writer"]
    assert facts["models"][1]["labels"] == ["LABEL_0", "LABEL_1", "LABEL_2"] and facts["models"][2]["pair"]
    taken = {m["name"]: m["options"] for m in client.get("/api/methods").json()}
    assert set(taken) == set(pl.methods()) and {name for name in taken if "block" in taken[name]} == {"vaig", "secant"}
    assert facts["choices"]["units"] == list(TEXT_UNITS)


def test_a_model_says_what_its_empty_fields_mean(client, models):
    """Defaults and the word that masks are the library's own: asking for them by name changes nothing."""
    facts = {each["name"]: each for each in client.get("/api/health").json()["models"]}
    assert facts["tiny"]["mask"] == "[MASK]" and facts["writer"]["answers"] and not facts["tiny"]["answers"]
    for name, second in (("tiny", None), ("encoder", "the film"), ("toy", None)):
        method = facts[name]["methods"]["pair" if second else "explain"][0]
        plain = pl.explain(models[name], "not funny", second)
        named = pl.explain(models[name], "not funny", second, method=method, **facts[name]["defaults"])
        assert named.method == plain.method == method and named.top(3) == plain.top(3), name


def kinds():
    import transformers as hf

    from tests.support.models import answerer, config, tagger, tokenizer, translator

    torch.manual_seed(0)
    return {
        "tiny": lambda: classifier("bert"),
        "decoder": lambda: classifier("llama"),
        "one number": lambda: classifier("bert", labels=1),
        "encoder": lambda: encoder("bert"),
        "writer": generator,
        "translator": lambda: translator("t5"),
        "tagger": tagger,
        "answerer": answerer,
        "fill": lambda: (hf.BertForMaskedLM(config("bert")).eval(), tokenizer()),
    }


@pytest.mark.parametrize("name", [*kinds(), "toy"])
def test_whatever_is_offered_works(name):
    """Every method, baseline, score, layer, block and target of a model's list, each alone, is taken by that model."""
    from pathlens.serve.offers import offers

    model = pl.ToyModel() if name == "toy" else load(kinds()[name]())
    known = offers(model)
    view = "pair" if known["pair"] else "explain"
    offered = known["methods"][view]
    assert offered[0] == model.default_method
    text = "the [MASK] was funny" if name == "fill" else "not funny"
    second = "the film was good" if known["pair"] or known["second"] == "must" else None
    asked = [{"method": each, "max_nodes": 21} for each in offered]
    words = [each for each in asked if each["method"] in ("dig", "udig")]
    plain = {"method": "ij" if known["pair"] else "ig", "max_nodes": 21}
    asked += [plain] + [{**plain, "baseline": each} for each in known["baselines"]]
    asked += [{**plain, "score": each} for each in known["scores"]]
    asked += [{**plain, "target": each} for each in known["targets"] or []]
    if known["layers"]:
        able = [each for each in asked if each not in words and "baseline" not in each and "target" not in each]
        asked += [
            {**each, "layer": layer} for each in able for layer in (1, known["layers"]) if layer == 1 or each == plain
        ]
    asked += [{"method": "vaig", "block": each, "max_nodes": 21} for each in known["blocks"][:1]]
    assert known["defaults"]["baseline"] in known["baselines"]
    for choices in asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pl.errors.ConvergenceWarning)
            other = None if known["pair"] and "block" in choices else second  # a block's vectors are of one text
            pl.explain(model, text, other, **choices, check=False)  # whatever is refused raises


def test_what_is_not_there_is_not_offered():
    from pathlens.serve.offers import offers

    known = {name: offers(load(make())) for name, make in kinds().items()}
    assert "mask" not in known["decoder"]["baselines"] and "mask" in known["tiny"]["baselines"]
    assert all(("quiet" in each["baselines"]) == each["pair"] for each in known.values())
    named = load(classifier("bert"))
    named.labels = ("negative", "positive")
    assert [
        offers(named)["second"],
        known["tiny"]["second"],
        known["answerer"]["second"],
        known["writer"]["second"],
    ] == ["", "may", "must", ""]
    assert [name for name in known if "table" in known[name]["views"]] == ["tiny", "decoder"]
    assert "idg" not in known["answerer"]["methods"]["explain"]
    assert "dig" not in offers(pl.ToyModel())["methods"]["explain"]


def test_the_page_lists_no_method_by_hand():
    """Which methods fit a view is read off their table: a new one is offered where it belongs, and nothing names two."""
    quoted = re.compile("|".join(f"[\"'`]{name}[\"'`]" for name in pl.methods()))
    scripts = sorted((Path(pl.__file__).parent / "serve" / "static").glob("*.js"))
    assert len(scripts) == 5
    assert [script.name for script in scripts if quoted.search(script.read_text(encoding="utf-8"))] == []


class NumberFields(HTMLParser):
    """The numbers of the page's form: (view, name) → attributes of the field."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.views: list[str] = []
        self.fields: dict[tuple[str, str], dict[str, str | None]] = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag == "label":
            self.views = (named.get("data-for") or "").split()
        if tag == "input" and named.get("type") == "number":
            self.fields |= {(view, named["name"]): named for view in self.views}


def bounds_of(request: type, name: str) -> tuple[float | None, float | None]:
    kinds = request.model_json_schema()["properties"][name]["anyOf"]
    (number,) = (each for each in kinds if each["type"] in ("integer", "number"))
    return number.get("minimum"), number.get("maximum")


def test_the_pages_numbers_have_the_bounds_of_the_requests():
    """Written by hand in the page, so that a browser says it before anything is sent: the same as the server says."""
    fields = NumberFields((STATIC / "index.html").read_text(encoding="utf-8")).fields
    assert {name for _, name in fields} == {"layer", "tolerance", "generate"}
    script = (STATIC / "form.js").read_text(encoding="utf-8")
    assert 'pick("layer").max = model().layers' in script and not re.search(r"\.min = |\.max = (?!model)", script)
    for (view, name), field in fields.items():
        least, most = bounds_of(REQUESTS["explain" if view == "pair" else view], name)
        if name == "layer":  # a page counts from the words upwards, and to the model's own depth
            assert int(field["min"]) == 0 > least and "max" not in field
        else:
            assert (float(field["min"]), float(field["max"])) == (least, most), (view, name)
        if name == "tolerance":
            assert float(field["placeholder"]) == Accuracy().tolerance


def test_options_of_answers_are_one_record():
    """Python, the command line and the page take the same, with the same defaults."""
    from pathlens.cli.options import OfAnswers
    from pathlens.serve.requests import AnswerRequest

    record = {each.name: each for each in options_of(AnswerOptions)}
    shown = inspect.signature(pl.answer).parameters
    for name, each in record.items():
        assert shown[name].default == each.default and shown[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert {name for name, each in shown.items() if each.kind is each.KEYWORD_ONLY} == set(record)
    assert set(record) == {each.name for each in fields(OfAnswers)} <= set(AnswerRequest.model_fields)
    assert all(AnswerRequest.model_fields[name].default is None for name in record)


def test_a_long_pass_is_watched_and_ended_inside(models):
    """An answer's sources may be long: a pass over them tells its block, and stops there, not at its end."""
    from pathlens.serve.models import Models
    from pathlens.serve.tasks import Cancelled, Meter

    meter = Meter()
    with Models(models, ServerLimits()).take("writer", meter).itself() as model:
        ids = torch.tensor([[5, 6, 7]])
        model.whole()(input_ids=ids)
        assert meter.points == 1 and meter.block == (model.depth, model.depth)
        model.network.blocks[0].register_forward_hook(lambda *_: setattr(meter, "stopped", "called off"))
        with pytest.raises(Cancelled):
            model.whole()(input_ids=ids)
        assert meter.block[0] == 2 < model.depth + 1
    assert not model.network.blocks[1]._forward_pre_hooks, "nothing is left on the model"
    model.network.blocks[0]._forward_hooks.clear()


def test_predictions_are_what_explaining_says(client, models):
    texts = ["not funny", TEXT, "the plot " * 40]
    rows = client.post("/api/predict", json={"model": "tiny", "texts": texts}).json()["rows"]
    for text, row in zip(texts[:2], rows, strict=False):
        wanted = pl.explain(models["tiny"], text)
        assert row["prediction"] == wanted.prediction
        assert row["probabilities"] == pytest.approx(wanted.probabilities, abs=1e-6)
    assert "40" in rows[2]["error"], "a text that is too long does not stop the others"
    assert client.post("/api/predict", json={"model": "encoder", "texts": ["a"]}).status_code == 422


def test_a_request_offers_what_the_library_takes(client):
    """Names and bounds are the library's own: nothing is offered that is refused afterwards."""
    fields = client.get("/api/openapi.json").json()["components"]["schemas"]["ExplainRequest"]["properties"]
    rule, nodes = fields["rule"]["anyOf"][0], fields["max_nodes"]["anyOf"][0]
    assert tuple(rule["enum"]) == RULES and nodes["minimum"] == LEAST_NODES
    assert {*option_names(GeneratorOptions), *option_names(PromptedOptions), *option_names(Accuracy)} <= set(fields)
    ask = {"model": "toy", "text": "a b c"}
    assert client.post("/api/explain", json={**ask, "max_nodes": LEAST_NODES}).status_code == 200
    for method, choices in next(each for each in options() if each.name == "strategy").takers.items():
        assert method not in ("dig", "udig") or choices == STRATEGIES[method]
    for each in rule["enum"]:
        assert client.post("/api/explain", json={**ask, "rule": each}).status_code == 200, each


def test_explain_gives_what_the_library_gives(client, models):
    body = {"model": "tiny", "text": TEXT, "method": "ig", "target": "LABEL_1", "baseline": "pad"}
    answer = client.post("/api/explain", json=body)
    assert answer.status_code == 200, answer.text
    wanted = pl.explain(models["tiny"], TEXT, method="ig", target="LABEL_1", baseline="pad")
    result = from_dict(answer.json())
    assert result.tokens == wanted.tokens and abs(result.scores - wanted.scores).max() < 1e-9


@pytest.mark.parametrize(
    "path, body, key",
    [
        ("compare", {"model": "tiny", "text": TEXT, "methods": ["ig", "sig"]}, "spearman"),
        ("whatif", {"model": "tiny", "text": TEXT, "edits": [{"unit": "not", "kind": "delete"}]}, "edits"),
        ("path", {"model": "tiny", "text": TEXT, "points": 5}, "tracks"),
        ("layers", {"model": "tiny", "text": TEXT, "layers": [0, 1]}, "items"),
        ("nodes", {"model": "tiny", "text": TEXT, "counts": [4, 8]}, "errors"),
        ("evaluate", {"model": "tiny", "texts": [TEXT, "not funny"], "methods": ["ig"]}, "columns"),
        (
            "answer",
            {"model": "writer", "question": "who was it ?", "sources": ["a movie .", "a man ."], "reply": "the man ."},
            "matrix",
        ),
        (
            "rank",
            {"model": "encoder", "query": "a movie", "documents": ["the film", "good music"], "why": [0, 1]},
            "why",
        ),
    ],
)
def test_every_kind_of_work_in_every_format(client, path, body, key):
    started = client.post(f"/api/{path}?wait=false", json=body)
    assert started.status_code == 202
    job = _until_over(client, started.json()["id"])
    assert job["state"] == "done", job
    where = f"/api/jobs/{job['id']}/result"
    assert key in client.get(where).json()
    assert "<script" not in client.get(where, params={"format": "fragment"}).text
    assert client.get(where, params={"format": "html"}).text.startswith("<!DOCTYPE html>")
    picture = client.get(where, params={"format": "png"})
    assert picture.content.startswith(b"\x89PNG")


def _until_over(client, name, seconds=900):
    for _ in range(seconds * 20):
        job = client.get(f"/api/jobs/{name}").json()
        if job["state"] not in ("waiting", "working"):
            return job
        time.sleep(0.05)
    raise AssertionError(job)


@pytest.mark.parametrize(
    "body, word",
    [
        ({"model": "gpt9", "text": "x"}, "not named at start"),
        ({"model": "/etc/passwd", "text": "x"}, "not named at start"),
        ({"model": "tiny", "text": "x", "method": "magic"}, "magic"),
        ({"model": "tiny", "text": "x", "target": "nobody"}, "nobody"),
        ({"model": "tiny", "text": "x", "n_steps": 9999}, "n_steps"),
        ({"model": "tiny", "text": "x", "coordinates": True}, "coordinates"),
        ({"model": "tiny", "text": "a movie " * 40}, "40"),
        ({"model": "tiny", "text": "y" * 20_001}, "text"),
        ({"model": "tiny"}, "text"),
    ],
)
def test_what_cannot_be_used_is_said_in_words(client, body, word):
    answer = client.post("/api/explain", json=body)
    assert answer.status_code == 422 and word in answer.json()["detail"], answer.text


def test_a_body_too_large_or_not_json_is_refused(client):
    assert client.post("/api/explain", content=b"{" + b" " * 500_000).status_code == 413
    assert client.post("/api/explain", content=b"{", headers={"Content-Type": "application/json"}).status_code == 422


def test_work_is_watched_called_off_and_bounded(client):
    body = {"model": "slow", "text": "a b c", "n_steps": 512, "rule": "split"}
    first = client.post("/api/explain?wait=false", json=body).json()["id"]
    while client.get(f"/api/jobs/{first}").json()["points"] == 0:
        time.sleep(0.02)
    waiting = [client.post("/api/explain?wait=false", json=body) for _ in range(4)]
    assert [w.status_code for w in waiting] == [202, 202, 202, 429] and "Retry-After" in waiting[-1].headers
    assert client.get(f"/api/jobs/{waiting[2].json()['id']}").json()["ahead"] == 2
    for each in (first, *(w.json()["id"] for w in waiting[:3])):
        client.delete(f"/api/jobs/{each}")
    Held.go.set()
    assert _until_over(client, first)["state"] == "cancelled"
    assert client.get(f"/api/jobs/{first}/result").status_code == 409
    assert client.get("/api/jobs/nobody").status_code == 404
    assert client.post("/api/explain", json={"model": "toy", "text": "a b"}).status_code == 200, "the worker lives on"


def test_another_host_or_page_is_not_answered(client):
    assert client.get("/api/health", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/api/health", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/api/health", headers={"Host": "localhost:8000"}).status_code == 200


def test_headers_and_policy(client):
    page = client.get("/")
    assert page.headers["content-security-policy"] == POLICY and "unsafe-inline" not in POLICY.split("style-src")[0]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "http://" not in page.text and "https://" not in page.text
    for name in FILES:
        file = client.get(f"/static/{name}")
        assert file.status_code == 200 and "http://" not in file.text.replace("http://www.w3.org/2000/svg", "")
    assert client.get("/static/../app.py").status_code == 404


def test_a_token_is_asked_for(capfd):
    from starlette.testclient import TestClient

    secret = "a-token-nobody-guesses"
    client = TestClient(make_app({"toy": pl.ToyModel()}, token=secret, host="0.0.0.0"))
    assert client.get("/").status_code == 200
    assert client.get("/api/health").status_code == 401
    assert client.get("/api/health", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/api/health", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert secret not in "".join(capfd.readouterr())


def test_hostile_text_stays_text(client):
    body = {"model": "toy", "text": "<img src=x onerror=alert(1)> ok", "baseline": "<b>x</b>"}
    job = client.post("/api/explain?wait=false", json=body).json()
    _until_over(client, job["id"])
    for form in ("fragment", "html"):
        shown = client.get(f"/api/jobs/{job['id']}/result", params={"format": form}).text
        assert "<img" not in shown and "<b>" not in shown.replace("<b><u", "")
    assert "onerror" in shown


def test_threads_of_the_caller_are_left_alone():
    before = torch.get_num_threads()
    make_app({"toy": pl.ToyModel()})
    assert torch.get_num_threads() == before


def test_the_page_is_there_before_the_models():
    """Models load while the page answers: a question waits for its model, can be called off, and bad news is told."""
    from starlette.testclient import TestClient

    from pathlens.errors import ModelError
    from pathlens.serve.models import ModelSlot

    arrived = threading.Event()

    def broken():
        raise ModelError("no such model")

    def late():
        arrived.wait(900)
        return pl.ToyModel()

    slots = {"toy": ModelSlot("toy", load=late), "bad": ModelSlot("bad", load=broken)}
    words, failures = [], []
    app = make_app(slots)
    client = TestClient(app)
    thread = app.state.models.fill(words.append, failures.append)
    assert [m["state"] for m in client.get("/api/health").json()["models"]] == ["loading", "loading"]
    first, second = (
        client.post("/api/explain?wait=false", json={"model": "toy", "text": "a b"}).json()["id"] for _ in range(2)
    )
    while client.get(f"/api/jobs/{first}").json()["stage"] != "loading toy":
        time.sleep(0.02)
    client.delete(f"/api/jobs/{first}")
    assert _until_over(client, first)["state"] == "cancelled"
    arrived.set()
    assert _until_over(client, second)["state"] == "done"
    thread.join(900)
    assert [m["state"] for m in client.get("/api/health").json()["models"]] == ["ready", "failed"]
    answer = client.post("/api/explain", json={"model": "bad", "text": "a"})
    assert answer.status_code == 422 and "no such model" in answer.json()["detail"]
    assert [str(error) for error in failures] == ["no such model"] and "ready" not in words
