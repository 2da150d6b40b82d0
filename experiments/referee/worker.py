"""A peer at work, in an environment of its own: `python worker.py PEER --model FOLDER --items FILE --out FILE`.

Nothing of pathlens is imported here. Items come as lines {"number", "text", "target"}; answers leave as lines {"number",
"pieces": [[start, end, score], …], "cpu", "passes", "gap"}: characters of the text, rows of the model run forward, and the
distance of the sum from the change the peer itself promises (left out where it promises none). Every peer explains the
logit of the target's class with its own default settings unless the line beside it says otherwise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Pieces = list[tuple[int, int, float]]
SAMPLES = 200  # of those that draw samples
EVALS = 500  # shap's own default


class Reader:
    """The model, its tokenizer, and a count of rows."""

    def __init__(self, folder: str) -> None:
        import transformers

        self.folder = folder
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        for weight in self.model.parameters():
            weight.requires_grad_(False)
        self.rows = 0
        self.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        given = kwargs.get("inputs_embeds")
        given = kwargs.get("input_ids", args[0] if args else None) if given is None else given
        self.rows += len(given)

    def ids(self, text: str) -> tuple[Tensor, list[tuple[int, int]]]:
        read = self.tokenizer(text, return_offsets_mapping=True, return_tensors="pt")
        return read["input_ids"], [tuple(span) for span in read["offset_mapping"][0].tolist()]

    def embeds(self, ids: Tensor) -> Tensor:
        return self.model.get_input_embeddings()(ids)

    def from_embeds(self, embeds: Tensor) -> Tensor:
        return self.model(inputs_embeds=embeds, attention_mask=torch.ones(embeds.shape[:2], dtype=torch.long)).logits

    def from_ids(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits

    def masked(self, ids: Tensor) -> Tensor:
        """[MASK] for every word, [CLS] and [SEP] at their own: the baseline of all of them."""
        special = self.tokenizer.get_special_tokens_mask(ids[0].tolist(), already_has_special_tokens=True)
        return torch.where(torch.tensor([special]).bool(), ids, self.tokenizer.mask_token_id)

    def of_texts(self, texts: Any) -> np.ndarray:
        read = self.tokenizer([str(text) for text in texts], padding=True, return_tensors="pt")
        with torch.no_grad():
            return self.model(**read).logits.numpy()


class Embedded(nn.Module):
    """The model from embeddings on, for peers that want a module."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.model, self.reader = reader.model, reader

    def forward(self, embeds: Tensor) -> Tensor:
        return self.reader.from_embeds(embeds)


Solve = Callable[[Reader, str, int], tuple[Pieces, float | None]]


def at_tokens(offsets: list[tuple[int, int]], scores: Any) -> Pieces:
    return [(start, end, float(score)) for (start, end), score in zip(offsets, scores, strict=True)]


def promised(reader: Reader, ids: Tensor, target: int, scores: Any) -> float:
    """|Σ scores − change|, relative to the change, from the masked text."""
    with torch.no_grad():
        change = float((reader.from_ids(ids) - reader.from_ids(reader.masked(ids)))[0, target])
    return abs(float(np.sum(scores)) - change) / max(abs(change), 1e-2)


def captum_gradients(name: str, **options: Any) -> Solve:
    def solve(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
        import captum.attr

        method = getattr(captum.attr, name)(Embedded(reader) if name == "DeepLift" else reader.from_embeds)
        ids, offsets = reader.ids(text)
        end, start = reader.embeds(ids), reader.embeds(reader.masked(ids))
        torch.manual_seed(0)
        scores = method.attribute(end.requires_grad_(), start, target=target, **options)[0].sum(-1).detach().numpy()
        return at_tokens(offsets, scores), promised(reader, ids, target, scores)

    return solve


def captum_samples(name: str, **options: Any) -> Solve:
    def solve(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
        import captum.attr

        ids, offsets = reader.ids(text)
        torch.manual_seed(0)
        np.random.seed(0)
        method = getattr(captum.attr, name)(reader.from_ids)
        with torch.no_grad():
            scores = method.attribute(ids, reader.masked(ids), target=target, **options)[0].numpy()
        claims = name == "KernelShap"
        return at_tokens(offsets, scores), promised(reader, ids, target, scores) if claims else None

    return solve


def shap_partition(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
    import shap

    explainer = shap.Explainer(
        lambda texts: reader.of_texts(texts)[:, target], shap.maskers.Text(reader.tokenizer), seed=0
    )
    explained = explainer([text], max_evals=EVALS, silent=True)
    pieces, at = [], 0
    for part, value in zip(explained.data[0], explained.values[0], strict=True):
        word = str(part).strip()
        start = text.find(word, at) if word else at
        start = at if start < 0 else start
        pieces.append((start, start + len(word), float(value)))
        at = start + len(word)
    whole, base = float(reader.of_texts([text])[0, target]), float(np.ravel(explained.base_values)[0])
    return pieces, abs(float(explained.values[0].sum()) - (whole - base)) / max(abs(whole - base), 1e-2)


def lime_words(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
    import re

    from lime.lime_text import LimeTextExplainer

    def shares(texts: Any) -> np.ndarray:
        return torch.tensor(reader.of_texts([t or "." for t in texts])).softmax(-1).numpy()

    places = [match.span() for match in re.finditer(r"\w+", text)]
    explainer = LimeTextExplainer(bow=False, random_state=0, split_expression=r"\W+")
    explanation = explainer.explain_instance(
        text, shares, num_features=len(places), num_samples=SAMPLES, labels=(target,)
    )
    return [(*places[k], weight) for k, weight in explanation.as_map()[target] if k < len(places)], None


def shapiq_words(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
    """Shapley values of the words by KernelSHAP, words masked; every subset where there are few."""
    import re

    import shapiq

    places = [match.span() for match in re.finditer(r"\S+", text)]
    mask, n = reader.tokenizer.mask_token, len(places)

    def game(subsets: np.ndarray) -> np.ndarray:
        texts = [
            " ".join(text[a:b] if kept else mask for kept, (a, b) in zip(row, places, strict=True)) for row in subsets
        ]
        return np.concatenate([reader.of_texts(texts[k : k + 64])[:, target] for k in range(0, len(texts), 64)])

    values = shapiq.KernelSHAP(n=n, random_state=0).approximate(min(EVALS, 2**n), game)
    scores = [float(values[(k,)]) for k in range(n)]
    ends = game(np.array([[True] * n, [False] * n]))
    change = float(ends[0] - ends[1])
    return [(*place, score) for place, score in zip(places, scores, strict=True)], abs(sum(scores) - change) / max(
        abs(change), 1e-2
    )


def lxt_relevance(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
    """AttnLRP by lxt's own BERT: the class's logit is handed back as relevance."""
    if not hasattr(reader, "relevance"):
        from lxt.models.bert import BertForSequenceClassification, attnlrp

        model = BertForSequenceClassification.from_pretrained(reader.folder, attn_implementation="eager").eval()
        attnlrp.register(model)
        reader.relevance = model  # type: ignore[attr-defined]
    ids, offsets = reader.ids(text)
    end = reader.embeds(ids).detach().requires_grad_()
    logit = reader.relevance(inputs_embeds=end, attention_mask=torch.ones_like(ids)).logits[0, target]  # type: ignore[attr-defined]
    reader.rows += 1
    logit.backward(logit)
    return at_tokens(offsets, end.grad[0].sum(-1).numpy()), None


def gim_scores(reader: Reader, text: str, target: int) -> tuple[Pieces, float | None]:
    """GIM's gradient times the way from the masked text; its own `explain` is for next tokens, so its context is used."""
    import gim

    ids, offsets = reader.ids(text)
    end, start = reader.embeds(ids).detach().requires_grad_(), reader.embeds(reader.masked(ids))
    with gim.GIM(reader.model):
        (slope,) = torch.autograd.grad(reader.from_embeds(end)[0, target], end)
    return at_tokens(offsets, (slope * (end - start))[0].sum(-1).detach().numpy()), None


PEERS: dict[str, Solve] = {
    "captum IG": captum_gradients("IntegratedGradients"),
    "captum GradientShap": captum_gradients("GradientShap", n_samples=20),
    "captum DeepLift": captum_gradients("DeepLift"),
    "captum occlusion": captum_samples("FeatureAblation", perturbations_per_eval=16),
    "captum LIME": captum_samples("Lime", n_samples=SAMPLES, perturbations_per_eval=16),
    "captum KernelShap": captum_samples("KernelShap", n_samples=SAMPLES, perturbations_per_eval=16),
    "shap partition": shap_partition,
    "lime": lime_words,
    "shapiq KernelSHAP": shapiq_words,
    "lxt AttnLRP": lxt_relevance,
    "gim": gim_scores,
}


def answers(reader: Reader, solve: Solve, items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in items:
        begun, reader.rows = time.process_time(), 0
        pieces, gap = solve(reader, item["text"], item["target"])
        facts = {"number": item["number"], "pieces": pieces, "cpu": time.process_time() - begun, "passes": reader.rows}
        yield facts if gap is None else facts | {"gap": gap}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("--model", required=True)
    parser.add_argument("--items", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    items = [json.loads(line) for line in args.items.read_text("utf-8").splitlines()]
    reader = Reader(args.model)
    with args.out.open("a", encoding="utf-8") as stream:
        for answer in answers(reader, PEERS[args.peer], items):
            stream.write(json.dumps(answer) + "\n")
            stream.flush()


if __name__ == "__main__":
    main()
