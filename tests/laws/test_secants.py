"""Secants: exact sums after one pass, on every kind of model and input that Integrated Gradients take."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import pathlens as pl
from pathlens.errors import InputError, SecantError
from pathlens.integrand.batch import Batch
from pathlens.integrand.secant import Both, SecantScores
from pathlens.integrand.secant.segments import run_again, several
from pathlens.text.network import in_double, replaced_forwards
from tests.support import models, sweep
from tests.support.models import ARCHITECTURES, TEXTS


def exact(result, close: float = 1e-5) -> None:
    """Σ scores = F(x) − F(b), to rounding, with no nodes."""
    cert = result.certificate
    size = max(abs(cert.f_input - cert.f_baseline), abs(cert.f_input), abs(cert.f_baseline))
    assert cert.converged and cert.nodes == 0
    assert cert.gap <= close * size
    assert result.scores.sum() == pytest.approx(cert.f_input - cert.f_baseline, abs=close * size)
    assert result.scores.any()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("choice", [{}, {"layer": 1}, {"score": "prob"}, {"baseline": "what film"}], ids=str)
def test_sums_are_exact(architecture, choice):
    exact(pl.explain(models.classifier(architecture), TEXTS[0], method="secant", **choice))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_forward_and_reverse_agree_and_no_kernel_matters(architecture, attention):
    pair = models.classifier(architecture, attention)
    vectors = pl.explain(pair, TEXTS[0], method="secant", gives="vectors")
    change = vectors.f_input - vectors.f_baseline
    assert vectors.vectors.sum(1) == pytest.approx(change, abs=1e-5 * np.abs(vectors.f_input).max())
    for label in range(3):
        single = pl.explain(pair, TEXTS[0], method="secant", target=label)
        assert vectors.vectors[0, :, label] == pytest.approx(single.scores, abs=1e-5 * max(1, np.abs(change).max()))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_packing_changes_nothing(architecture):
    pair = models.classifier(architecture)
    for rows in (None, 1, 2):
        together = pl.explain(pair, TEXTS, method="secant", internal_batch_size=rows)
        for text, result in zip(TEXTS, together, strict=True):
            assert result.scores == pytest.approx(pl.explain(pair, text, method="secant").scores, abs=2e-6)


def test_one_hidden_layer_is_integrated_gradients():
    torch.manual_seed(3)
    for act in (nn.Tanh(), nn.GELU(), nn.Softplus(), nn.SiLU()):
        net = nn.Sequential(nn.Linear(6, 9), act, nn.Linear(9, 1)).double()
        x, b = torch.randn(2, 6, dtype=torch.float64)
        secant = pl.explain(net, x, baseline=b, method="secant")
        assert secant.scores == pytest.approx(pl.explain(net, x, baseline=b, tolerance=1e-11).scores, abs=1e-9)
        exact(secant, 1e-12)


def test_a_linear_model_is_exact_from_any_baseline():
    torch.manual_seed(4)
    net = nn.Linear(6, 1).double()
    x, b = torch.randn(2, 6, dtype=torch.float64)
    result = pl.explain(net, x, baseline=b, method="secant")
    assert result.scores == pytest.approx((net.weight[0] * (x - b)).detach().numpy(), abs=1e-12)


def test_units_move_as_the_sum_of_their_tokens():
    pair = models.classifier("bert")
    tokens = pl.explain(pair, TEXTS[0], method="secant")
    halves = pl.explain(pair, TEXTS[0], method="secant", unit={"a": (0, 13), "b": (13, len(TEXTS[0]))})
    assert tokens.words().scores.sum() == pytest.approx(tokens.scores.sum())
    inside = [i for i, (s, e) in enumerate(tokens.offsets) if e > s and e <= 13]
    assert halves.scores[halves.tokens.index("a")] == pytest.approx(tokens.scores[inside].sum(), abs=1e-6)
    by_coordinate = pl.explain(pair, TEXTS[0], method="secant", coordinates=True)
    assert by_coordinate.coordinates.sum(-1) == pytest.approx(tokens.scores, abs=1e-6)


@pytest.mark.parametrize(
    "name, texts, choices",
    [
        ("tagger", [TEXTS[0]], {}),
        ("answerer", ["who plays music ?", "the man plays guitar ."], {}),
        ("generator", [TEXTS[0]], {"target": " film"}),
        ("generator", [TEXTS[0]], {"target": " film", "contrast": " movie"}),
    ],
)
def test_every_head(name, texts, choices):
    exact(pl.explain(getattr(models, name)(), *texts, method="secant", **choices))


@pytest.mark.parametrize(
    "model", [("generator", "llama"), ("generator", "gpt2"), ("translator", "t5"), ("translator", "bart")]
)
def test_continuations_have_a_sum_for_every_output_token(model):
    kind, name = model
    result = pl.explain(getattr(models, kind)(name), TEXTS[0], method="secant", target="the film was")
    assert result.certificate.converged and result.certificate.nodes == 0
    for column, cert in enumerate(result.certificates):
        assert result.matrix[:, column].sum() == pytest.approx(cert.f_input - cert.f_baseline, abs=1e-4)


def test_pairs_sum_to_the_similarity(minilm):
    pair = pl.explain(minilm, "A man plays a guitar.", "Someone makes music.", method="secant")
    assert isinstance(pair, pl.PairExplanation) and pair.method == "secant"
    assert pair.full_matrix.sum() == pytest.approx(pair.similarity, abs=1e-5)
    alone = pl.explain(minilm, "A man plays a guitar.", method="secant")
    assert isinstance(alone, pl.VectorExplanation)
    assert alone.vectors.sum(1) == pytest.approx(alone.f_input - alone.f_baseline, abs=1e-4)
    one_side = pl.explain(minilm, "A man plays a guitar.", "Someone makes music.", method="secant", gives="scores")
    exact(one_side)


def test_several_baselines_are_averaged():
    pair = models.classifier("bert")
    names = ["mask", "pad", "unk"]
    many = pl.explain(pair, TEXTS[0], method="secant", baseline=names)
    single = [pl.explain(pair, TEXTS[0], method="secant", baseline=name).scores for name in names]
    assert many.scores == pytest.approx(np.mean(single, axis=0), abs=1e-6)
    assert many.standard_error is not None


def test_phrases_stand_on_secants():
    pair = models.classifier("bert")
    tree = pl.explain(pair, TEXTS[0], method="idg", by="secant")
    assert tree.nodes[0].value == pytest.approx(1.0)
    assert tree.scores == pytest.approx(pl.explain(pair, TEXTS[0], method="secant").scores, abs=1e-6)


def test_a_block_by_name():
    result = pl.explain(models.encoder(), TEXTS[0], method="secant", block="encoder.layer.1.attention.self")
    assert result.vectors.sum(1) == pytest.approx(result.f_input - result.f_baseline, abs=1e-5)


@pytest.mark.parametrize("dtype, least", [(torch.bfloat16, 1e-6), (torch.float16, 1e-7)])
def test_half_precision_says_its_drift(dtype, least):
    model, tokenizer = models.classifier("bert")
    half = type(model)(model.config).to(dtype).eval()
    half.load_state_dict(model.state_dict())
    with pytest.warns(pl.ConvergenceWarning) if least else None:  # rounding is seen, not hidden
        result = pl.explain((half, tokenizer), TEXTS[0], method="secant", tolerance=1e-6, target=0)
    assert any("rounding alone moves the output by" in note for note in result.meta["notes"])
    whole = pl.explain((model, tokenizer), TEXTS[0], method="secant", target=0).certificate.f_input
    assert result.meta["drift"] >= max(
        torch.finfo(dtype).eps * abs(whole) / 2, abs(result.certificate.f_input - whole) / 8
    )
    assert result.certificate.gap > least and result.meta["dtype"] == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_has_vectors_and_pairs(dtype):
    model, tokenizer = models.encoder()
    half = type(model)(model.config).to(dtype).eval()
    half.load_state_dict(model.state_dict())
    for texts in ([TEXTS[0]], TEXTS[:2]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pl.ConvergenceWarning)  # of half precision's rounding
            exactly, coarse = (
                pl.explain((each, tokenizer), *texts, method="secant", pooling="mean", check=False)
                for each in (model, half)
            )
        name = "vectors" if len(texts) == 1 else "full_matrix"
        wanted = getattr(exactly, name)
        assert getattr(coarse, name) == pytest.approx(wanted, abs=0.05 * np.abs(wanted).max())
    encoded = pl.encode((half, tokenizer), TEXTS[:1], method="secant", pooling="mean")
    assert len(encoded) == 1


class _Routed(nn.Module):
    """Two experts, chosen by the sign of a number."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return torch.where(x.sum(-1, keepdim=True) > 0, self.first(x), self.second(x))


class _Branching(nn.Module):
    def forward(self, x):
        return x.sum(-1, keepdim=True) if bool(x.sum() > 0) else -x.sum(-1, keepdim=True)


@pytest.mark.parametrize("net", [_Routed(), _Branching()], ids=["experts", "control flow"])
def test_two_runs_that_go_different_ways_are_refused_in_one_line(net):
    x = torch.ones(4)
    with pytest.raises(SecantError, match="method='sig'"):
        pl.explain(net, x, baseline=-x, method="secant")
    exact(pl.explain(net, x, baseline=x / 2, method="secant"))  # where both go the same way there is nothing to refuse


@pytest.mark.parametrize(
    "choices, word",
    [
        ({"n_steps": 8}, "no nodes"),
        ({"rule": "gauss"}, "rule"),
        ({"gives": "words"}, "gives"),
        ({"block": "encoder.layer.1", "gives": "scores", "target": 0}, "a block has vectors"),
        ({"block": "encoder.layer.1", "gives": "pair"}, "a block has vectors"),
        ({"hold": "hidden_states"}, "name it with block"),
        ({"similarity": "dot"}, "compares no vectors; leave similarity out"),
        ({"norm": "inside"}, "compares no vectors; leave norm out"),
        ({"gives": "vectors", "baseline": ["mask", "pad"]}, "for scores, of ig, sig, ih or secant"),
    ],
)
def test_choices_that_mean_nothing_are_refused(choices, word):
    with pytest.raises(InputError, match=word):
        pl.explain(models.classifier("bert"), TEXTS[0], method="secant", **choices)


class _Asking(torch.autograd.Function):
    """Is a block's way back being taken for several numbers, where it is asked?"""

    answers: list[bool] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        _Asking.answers.append(several())
        return slope


def test_what_several_numbers_share_is_kept_for_the_block_that_runs_again_alone():
    """Kept for every block at once it would be as much memory as the plan had left out."""
    block, (start, end) = nn.Linear(4, 4).double(), torch.randn(2, 1, 3, 4, dtype=torch.float64)

    def asked(x):
        return Both(x.start, _Asking.apply(x.end))

    blocks = nn.ModuleList([block])
    plain = block.forward
    block.forward = lambda x: asked(plain(x))
    score = lambda x: torch.stack([block(x).sum((1, 2)), block(x).pow(2).sum((1, 2))], 1)[..., None]  # noqa: E731
    batch = Batch(score, end, end - start, torch.eye(3)[None], torch.ones(1), start=start)
    _Asking.answers = []
    kept = SecantScores(outputs=2)(batch)
    assert _Asking.answers and not any(_Asking.answers)
    _Asking.answers = []
    with replaced_forwards(list(blocks), run_again):
        again = SecantScores(outputs=2)(batch)
    assert _Asking.answers and all(_Asking.answers)
    assert again == pytest.approx(kept, abs=1e-12)


class _Skipping(nn.Module):
    """Blocks whose states are read again further on: after the next block, between two, and at the very end."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))

    def forward(self, x):
        first = self.blocks[0](x * 2)
        second = self.blocks[1](first * torch.sigmoid(x))
        third = self.blocks[2](second + first)
        return torch.stack([(third * first).sum((1, 2)), (third + x).pow(2).sum((1, 2))], 1)[..., None]


def test_states_that_are_read_again_have_all_their_slopes_when_blocks_run_again():
    torch.manual_seed(7)
    net, (start, end) = _Skipping().double(), torch.randn(2, 2, 5, 4, dtype=torch.float64)
    members = torch.eye(5).expand(2, -1, -1)
    batch = Batch(net, end, end - start, members, torch.ones(2), start=start)
    kept = SecantScores(outputs=2)(batch)
    with replaced_forwards(list(net.blocks), run_again):
        again = SecantScores(outputs=2)(batch)
    assert again == pytest.approx(kept, abs=1e-12)
    assert again[:, 2:].sum(1) == pytest.approx(again[:, 1] - again[:, 0], abs=1e-12)


class _Writing(nn.Module):
    """Its hidden state goes into views of a blank, or of a buffer, and is read out of the whole."""

    def __init__(self, owned: bool, hidden: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.owned, self.hidden = owned, hidden
        self.register_buffer("blank", torch.zeros(1, 8).double())
        self.first, self.last = nn.Linear(6, 8).double(), nn.Linear(8, 1).double()

    def forward(self, x):
        h = self.first(x)
        blank = self.blank if self.owned else torch.zeros(h.shape, dtype=h.dtype)
        before = blank[:]
        blank[:, :4].copy_(torch.relu(h[:, :4]))
        blank.view(-1)[4:].copy_(torch.tanh(h[0, 4:]))
        return self.last((torch.cos(before) if self.hidden else blank) + h)


@pytest.mark.parametrize("owned", [False, True], ids=["blank", "buffer"])
def test_what_is_written_into_a_view_is_read_from_the_whole(owned):
    net, (x, b) = _Writing(owned).eval(), _two_points()
    with torch.no_grad():
        outputs = [float(net(each[None])) for each in (x, b)]
    blank = net.blank
    result = pl.explain(net, x, baseline=b, method="secant", check=False)
    assert (result.certificate.f_input, result.certificate.f_baseline) == pytest.approx(outputs, abs=1e-12)
    exact(result, 1e-12)
    assert net.blank is blank and type(blank) is torch.Tensor, "the model is left as it was"


def test_what_was_written_and_is_read_past_the_rules_is_refused():
    """A view from before the writing, in an operation of its own: nobody sees it, but the output is not the model's."""
    x, b = _two_points()
    with pytest.raises(SecantError, match="copy_ writes into a tensor whose memory others share"):
        pl.explain(_Writing(False, hidden=True).eval(), x, baseline=b, method="secant")


ORDER = {
    "sort": lambda h: torch.sort(h, -1).values,
    "sort ": lambda h: h.sort(dim=-1, descending=True)[0],
    "topk": lambda h: torch.topk(h, 6, -1).values,
}
COUNTS = {
    "mul": lambda h: h * (h > 0).to(h.dtype),
    "add": lambda h: h + (h > 0).double(),
    "mul ": lambda h: h * ((h > 0).sum(-1, keepdim=True) / 6),
    "add ": lambda h: h + (h > 0).sum(-1, keepdim=True).double().sqrt(),
    "add  ": lambda h: h + torch.nn.functional.layer_norm((h > 0).double(), (6,)),
    "add   ": lambda h: h + h[..., 1:].argmax(-1, keepdim=True).double() ** 0.5,
    "add    ": lambda h: h + torch.softmax((h > 0).double(), -1) * torch.exp((h > 0).double()),
    "add     ": lambda h: h + (h > 0).double().norm(dim=-1, keepdim=True) * (1.0 + (h > 0).double()).rsqrt(),
    "add      ": lambda h: h + torch.einsum("...d,de->...e", (h > 0).double(), torch.ones(6, 6).double()),
    "add       ": lambda h: h + torch.zeros(1, 6).double().scatter_(1, h[..., 1:].argmax(-1, keepdim=True), 1.0),
    "maximum": lambda h: torch.maximum(h, (h > 0).double()),
    "is a choice": lambda h: (h > 0).double(),
}
NORMS = {
    "sum of sizes": lambda h: h * torch.linalg.vector_norm(h, ord=1, dim=-1, keepdim=True),
    "largest": lambda h: h * torch.linalg.vector_norm(h, ord=float("inf"), dim=-1, keepdim=True),
    "cubes": lambda h: h * torch.linalg.vector_norm(h, ord=3, dim=-1, keepdim=True),
    "sizes of all": lambda h: h * torch.norm(h, p=1),
    "by norm": lambda h: h * torch.linalg.norm(h, ord=1, dim=-1, keepdim=True),
    "length": lambda h: h * torch.linalg.norm(h, dim=-1, keepdim=True),
}


class _Between(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.function, self.first, self.last = function, nn.Linear(6, 6).double(), nn.Linear(6, 1).double()

    def forward(self, x):
        return self.last(self.function(self.first(x)))


def _two_points() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)


@pytest.mark.parametrize("name", [*ORDER, *COUNTS])
def test_order_and_counts_that_differ_are_refused_by_name(name):
    x, b = _two_points()
    with pytest.raises(SecantError, match=name.strip()):
        pl.explain(_Between({**ORDER, **COUNTS}[name]), x, baseline=b, method="secant")


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_the_norm_that_is_asked_for(name):
    net, (x, b) = _Between(NORMS[name]), _two_points()
    result = pl.explain(net, x, baseline=b, method="secant")
    with torch.no_grad():
        assert result.certificate.f_input == pytest.approx(float(net(x)), abs=1e-12)
        assert result.scores.sum() == pytest.approx(float(net(x) - net(b)), abs=1e-9)


def above_a_thousand(logits):
    """Float32 is coarse up there: its rounding is 1e-4 of this output's change."""
    return logits[:, 0] + 1000.0


def test_where_rounding_would_show_the_sum_is_taken_in_float64_and_the_model_is_left_as_it_was():
    pair = models.classifier("bert")
    weights = {name: (each.data_ptr(), each.clone()) for name, each in pair[0].state_dict().items()}
    result = pl.explain(pair, TEXTS[0], method="secant", target=above_a_thousand)
    assert result.certificate.relative_gap < 1e-7
    assert result.scores == pytest.approx(pl.explain(pair, TEXTS[0], method="secant", target=0).scores, abs=1e-6)
    after = pair[0].state_dict()
    assert all(after[name].data_ptr() == place for name, (place, _) in weights.items())
    assert all(
        torch.equal(after[name], value) and after[name].dtype == value.dtype for name, (_, value) in weights.items()
    )
    once = pl.explain(pair, TEXTS[0], method="secant", target=0)
    assert result.certificate.passes == 2 * once.certificate.passes


def raised(pair):
    """The same model with logits around a thousand, which only a score of them sees."""
    model = copy.deepcopy(pair[0])
    model.get_output_embeddings().register_forward_hook(lambda module, given, logits: logits + 1000.0)
    return model, pair[1]


def columns(result) -> list[float]:
    """The gaps of every token of a continuation, and of all of them, of their own change."""
    return [each.relative_gap for each in (*result.certificates, result.certificate)]


@pytest.mark.parametrize("name", ["llama", "qwen2", "gpt2", "t5", "bart"])
def test_a_continuation_is_taken_in_float64_where_one_of_its_tokens_asks_for_it(name):
    """Llama casts its norms to float32 in whatever it runs, and T5 its own: they keep the look's digits."""
    asked = {"target": " not good !", "score": "logit", "method": "secant", "check": False}
    pair = models.translator(name) if name in ("t5", "bart") else models.generator(name)
    plain, far = pl.explain(pair, TEXTS[2], **asked), pl.explain(raised(pair), TEXTS[2], **asked)
    assert len(far.certificates) == 3 and max(columns(plain)) < 1e-5 and max(columns(far)) < 1e-9
    assert far.certificate.passes == 2 * len(far.certificates) + 4
    assert far.matrix == pytest.approx(plain.matrix, abs=1e-5)
    for one, other in zip(far.certificates, plain.certificates, strict=True):
        assert one.f_input == pytest.approx(1000 + other.f_input, abs=1e-3), "it is what the model says"


def test_one_token_of_a_continuation_is_enough_for_float64():
    """What it changes by is a thousandth of what the others do, so the sum of all does not show its rounding."""
    made, tokenizer = models.generator("llama")
    model, steady = copy.deepcopy(made), tokenizer.convert_tokens_to_ids("!")
    scale, shift = torch.ones(model.config.vocab_size), torch.zeros(model.config.vocab_size)
    scale[steady], shift[steady] = 1e-3, 10.0
    model.get_output_embeddings().register_forward_hook(lambda module, given, logits: logits * scale + shift)
    asked = {"target": " really bad !", "score": "logit", "method": "secant", "check": False}
    with_it = pl.explain((model, tokenizer), TEXTS[1], **asked)
    without = pl.explain((made, tokenizer), TEXTS[1], **asked)
    assert with_it.certificate.passes == 2 * without.certificate.passes and max(columns(without)) < 1e-5
    assert max(columns(with_it)) < 1e-9


def test_each_target_of_a_call_is_taken_in_float64_where_it_asks_for_it():
    pair = models.classifier("bert")
    first, far = pl.explain(pair, TEXTS[0], method="secant", target=[0, above_a_thousand], check=False)
    assert far.certificate.relative_gap < 1e-9 and first.certificate.relative_gap < 1e-5
    assert far.scores == pytest.approx(first.scores, abs=1e-5)
    assert far.certificate.passes == 2 * first.certificate.passes == 6


TABLE = torch.linspace(0.5, 1.5, 36).reshape(6, 6)
NARROW = {  # what models do in float32, whatever they run in
    "to": lambda h: torch.tanh(h.to(torch.float32)).to(h.dtype),
    "to, by name": lambda h: torch.tanh(h.to(dtype=torch.float32)),
    "float": lambda h: torch.tanh(h.float()),
    "type": lambda h: torch.tanh(h.type(torch.float32)),
    "type of another": lambda h: torch.tanh(h.type_as(TABLE)),
    "softmax": lambda h: torch.softmax(h, -1, dtype=torch.float32),
    "mean": lambda h: h * h.mean(-1, keepdim=True, dtype=torch.float32),
    "product": lambda h: torch.tanh(h.float() @ TABLE),
    "linear": lambda h: torch.nn.functional.linear(h, TABLE, TABLE[0]),
    "state": lambda h: torch.zeros(len(h), 6, dtype=torch.float32).index_copy_(1, torch.arange(6), torch.tanh(h)),
    "sum kept": lambda h: h * h.new_zeros(len(h), 1, dtype=torch.float32).add_(torch.tanh(h).sum(-1, keepdim=True)),
    "lowest number": lambda h: torch.maximum(torch.tanh(h), torch.full((), torch.finfo(h.dtype).min)),
    "lowest number ": lambda h: torch.maximum(torch.tanh(h), torch.tensor(torch.finfo(h.dtype).min)),
    "experts": lambda h: torch.nn.functional.grouped_mm(
        torch.cat([torch.tanh(h)] * 3).repeat(1, 2)[:, :8],
        torch.linspace(-1, 1, 128).reshape(2, 8, 8),
        offs=torch.tensor([len(h), 2 * len(h)], dtype=torch.int32),
    )[: 2 * len(h)].reshape(len(h), -1)[:, :6],
}


@pytest.mark.parametrize("name", NARROW)
def test_what_a_model_does_in_float32_keeps_its_digits_where_it_is_taken_in_float64(name):
    """Its output is far above its change, so it is taken there; and one cast alone would leave 1e-8 of that change."""
    torch.manual_seed(4)
    first, last = nn.Linear(6, 6), nn.Linear(6, 1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = first, last

        def forward(self, x):
            return self.last(NARROW[name](self.first(x)).to(self.last.weight.dtype)) + 3000.0

    x, b = torch.randn(2, 6)
    result = pl.explain(Net(), x, baseline=b, method="secant", check=False)
    with torch.no_grad():
        outputs = [float(Net()(each[None])) for each in (b, x)]
    assert result.certificate.passes == 6 and result.certificate.relative_gap < 1e-10
    assert [result.certificate.f_baseline, result.certificate.f_input] == pytest.approx(outputs, rel=1e-6)
    assert first.weight.dtype == TABLE.dtype == torch.float32


def test_a_model_that_is_another_function_in_float64_keeps_what_float32_gave():
    made, tokenizer = models.classifier("bert")
    model = copy.deepcopy(made)
    model.classifier.register_forward_hook(
        lambda module, given, logits: logits * (100 if logits.dtype == torch.float64 else 1)
    )
    kept = pl.explain((model, tokenizer), TEXTS[0], method="secant", target=above_a_thousand)
    plain = pl.explain((made, tokenizer), TEXTS[0], method="secant", target=0)
    assert kept.scores == pytest.approx(plain.scores, abs=1e-2) and kept.certificate.relative_gap > 1e-6


def test_without_room_for_float64_weights_nothing_is_changed_and_the_gap_is_told():
    pair = models.classifier("bert")
    needed = 2 * sum(each.nbytes for each in pair[0].parameters())
    tight = pl.explain(pair, TEXTS[0], method="secant", target=above_a_thousand, memory_budget=needed)
    assert tight.certificate.relative_gap > 1e-6 and tight.certificate.passes == 3
    with in_double(pair[0], most=needed // 2) as taken:
        assert taken == 0 and next(pair[0].parameters()).dtype == torch.float32


def test_a_model_that_cannot_run_in_float64_keeps_what_float32_gave():
    """Kernels of experts take no float64."""
    made, tokenizer = models.classifier("bert")
    model = copy.deepcopy(made)

    def no_double(_, given):
        if given[0].dtype == torch.float64:
            raise RuntimeError("Expected mat_a to be Float32, got Double")

    model.classifier.register_forward_pre_hook(no_double)
    kept = pl.explain((model, tokenizer), TEXTS[0], method="secant", target=above_a_thousand)
    assert kept.certificate.relative_gap > 1e-6 and kept.certificate.passes == 3
    assert kept.scores == pytest.approx(pl.explain((model, tokenizer), TEXTS[0], target=0).scores, abs=1e-2)
    assert {each.dtype for each in model.parameters()} == {torch.float32}


def test_at_most_so_many_nodes_asks_for_an_integral_as_a_fixed_number_of_them_does():
    pair = models.classifier("bert")
    few = pl.explain(pair, TEXTS[0], max_nodes=64, tolerance=0.5, check=False)
    assert few.method == "ig" and 0 < few.certificate.nodes <= 64
    assert pl.explain(pair, TEXTS[0], tolerance=0.5, check=False).method == "secant"
    assert pl.explain(pair, TEXTS[0], method="secant", max_nodes=64).certificate.nodes == 0, "none are not too many"


def test_experts_that_are_routed_elsewhere_are_refused_in_a_line_that_names_the_ways_out():
    """Nothing falls back silently: the output jumps, and the default says which methods stand that."""
    pair = sweep.build("mixtral", "write")
    with pytest.raises(SecantError, match=r"^topk chooses other entries .*method='sig'.*method='ig'") as refused:
        pl.explain(pair, sweep.TEXT, target=" good")
    assert "\n" not in str(refused.value)
    for method in ("sig", "ig"):
        assert pl.explain(pair, sweep.TEXT, target=" good", method=method).settled
