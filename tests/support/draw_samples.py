"""Results made by hand, for tests and demonstrations of pictures: no model is needed to draw.

`python -m tests.support.draw_samples FOLDER` prints every view and writes each as a page and a picture there.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from pathlens.explanation.answer import Answer
from pathlens.explanation.certificate import Certificate
from pathlens.explanation.record import (
    Continuation,
    Explanation,
    Interactions,
    PairExplanation,
    Phrase,
    PhraseTree,
    VectorExplanation,
)

NASTY = "<img src=x onerror=alert(1)>"
TRICKS = (NASTY, "[bold]loud[/bold]", "$x^2$", "\\frac", "</script>", "<!--", "&amp;", "\x1b[31m", "_a_", "'\"")


def certificate(total: float, *, f_baseline: float = 0.5, **changed: Any) -> Certificate:
    """A settled certificate whose total misses the change by 5e-5."""
    values: dict[str, Any] = {
        "f_input": f_baseline + total + 5e-5, "f_baseline": f_baseline, "total": total, "gap": 5e-5,
        "relative_gap": 5e-5 / max(abs(total), 1e-9), "tolerance": 1e-3, "converged": True, "nodes": 31,
        "passes": 33, "error_estimate": (1e-6,), "bound": max(1e-3 * abs(total), 1e-4),
    }  # fmt: skip
    return Certificate(**{**values, **changed})


def cut(text: str, pattern: str = r"\w+|[^\w\s]") -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Words and their characters."""
    matches = list(re.finditer(pattern, text))
    return tuple(m.group() for m in matches), tuple(m.span() for m in matches)


def explanation(text: str, scores: Any = None, *, pattern: str = r"\w+|[^\w\s]", **changed: Any) -> Explanation:
    """[CLS] words [SEP], with scores given or drawn from a fixed generator."""
    tokens, offsets = cut(text, pattern)
    if scores is None:
        scores = np.random.default_rng(len(text)).normal(size=len(tokens)) ** 3
    scores = np.concatenate([[0.0], np.asarray(scores, dtype=float), [0.0]])
    n = len(tokens)
    values: dict[str, Any] = {
        "method": "ig", "target": "positive", "certificate": certificate(float(scores.sum())),
        "meta": {"texts": [text], "model": "sentiment", "baseline": "mask", "score": "logit", "notes": []},
        "tokens": ("[CLS]", *tokens, "[SEP]"), "offsets": ((0, 0), *offsets, (0, 0)), "scores": scores,
        "special": (True, *[False] * n, True), "segments": (-1, *[0] * n, -1),
    }  # fmt: skip
    return Explanation(**{**values, **changed})


def small() -> Explanation:
    """Seven tokens, the numbers chosen to be read."""
    return explanation("Not really funny, but moving.", [-1.42, 0.11, -0.63, 0.02, 0.88, 2.31, 0.05])


def japanese() -> Explanation:
    text = "この映画は本当に面白くて、とても感動しました。"
    return explanation(text, pattern="この|映画|は|本当に|面白く|て|、|とても|感動|しました|。")


def emoji() -> Explanation:
    """One emoji cut in byte pieces that share its character, and a family joined by zero-width joiners."""
    text = "So good 😀 for 👨‍👩‍👧 !"
    tokens = ("So", "good", "ð", "Ł", "ĺ", "for", "👨‍👩‍👧", "!")
    family = text.index("👨")
    offsets = ((0, 2), (3, 7), (8, 9), (8, 9), (8, 9), (10, 13), (family, family + 5), (len(text) - 1, len(text)))
    scores = np.array([0.1, 1.2, 0.3, 0.25, 0.2, -0.05, 0.7, 0.15])
    return Explanation(
        method="udig", target="😀 happy", certificate=certificate(float(scores.sum())), tokens=tokens,
        offsets=offsets, scores=scores, special=(False,) * 8, meta={"texts": [text]},
    )  # fmt: skip


def nasty() -> Explanation:
    """Every token tries to be read as markup by something."""
    text = " ".join(TRICKS)
    return explanation(text, np.linspace(-1, 1, len(TRICKS)), pattern=r"<img[^>]*>|\S+", target=NASTY)


def long(n: int = 500) -> Explanation:
    words = ["the", "film", "was", "awful", "but", "its", "music", "moved", "me", "deeply"]
    return explanation(" ".join(words[i % 10] for i in range(n)), np.random.default_rng(0).normal(size=n) ** 3)


def pair(text_a: str, text_b: str, **changed: Any) -> PairExplanation:
    """Two texts with [CLS] and [SEP] (zero), similar words made to agree."""
    (a, at_a), (b, at_b) = cut(text_a), cut(text_b)
    rng = np.random.default_rng(len(a) * 31 + len(b))
    full = np.zeros((len(a) + 3, len(b) + 3))
    core = rng.normal(size=(len(a), len(b))) * 0.02
    links = {("man", "Someone"): 0.16, ("plays", "makes"): 0.21, ("guitar", "music"): 0.34, (".", "."): 0.05}
    for (one, other), value in links.items():
        if one in a and other in b:
            core[a.index(one), b.index(other)] += value
    full[2:-1, 2:-1] = core
    full[0, 0], full[0, 2:-1], full[2:-1, 0] = 0.71, -0.4 / max(len(b), 1), -0.35 / max(len(a), 1)
    total = float(full.sum())
    values: dict[str, Any] = {
        "method": "ij", "target": "cosine similarity", "similarity": total + 1e-6,
        "certificate": certificate(total, f_input=total + 1e-6, f_baseline=0.71, gap=1e-6, kind="matrix"),
        "meta": {"texts": [text_a, text_b], "model": "minilm", "baseline": "mask"},
        "tokens_a": ("[CLS]", *a, "[SEP]"), "tokens_b": ("[CLS]", *b, "[SEP]"),
        "offsets_a": ((0, 0), *at_a, (0, 0)), "offsets_b": ((0, 0), *at_b, (0, 0)), "full_matrix": full,
        "special_a": (True, *[False] * len(a), True), "special_b": (True, *[False] * len(b), True),
    }  # fmt: skip
    return PairExplanation(**{**values, **changed})


def small_pair() -> PairExplanation:
    return pair("A man plays a guitar.", "Someone makes music.")


def long_pair(n: int = 500) -> PairExplanation:
    text = " ".join(f"w{i}" for i in range(n))
    return pair(text, text.replace("w", "v"))


def interactions(text: str = "Not really funny, but moving.", **changed: Any) -> Interactions:
    tokens, offsets = cut(text)
    n = len(tokens)
    rng = np.random.default_rng(n)
    matrix = np.zeros((n + 2, n + 2))
    half = rng.normal(size=(n, n)) * 0.1
    matrix[1:-1, 1:-1] = half + half.T + np.diag(rng.normal(size=n))
    if n > 2:
        matrix[1, 3] = matrix[3, 1] = -0.84
    scores = matrix.sum(1)
    total = float(matrix.sum())
    values: dict[str, Any] = {
        "method": "ih", "target": "positive", "meta": {"texts": [text], "model": "sentiment"},
        "certificate": certificate(total, rows=(2e-6, -1e-5)), "tokens": ("[CLS]", *tokens, "[SEP]"),
        "offsets": ((0, 0), *offsets, (0, 0)), "matrix": matrix, "scores": scores,
        "special": (True, *[False] * n, True),
    }  # fmt: skip
    return Interactions(**{**values, **changed})


def block(text: str = "Not really funny, but moving.", *, out: int | None = None, d: int = 16) -> VectorExplanation:
    """Each output position takes most from itself and its neighbours."""
    tokens, offsets = cut(text)
    n = len(tokens)
    out = n if out is None else out
    near = np.exp(-np.abs(np.arange(out)[:, None] - np.arange(n)[None, :]) / 1.5)
    vectors = np.random.default_rng(n).normal(size=(out, n, d)) * near[..., None]
    total = float(np.linalg.norm(vectors.sum(1)))
    return VectorExplanation(
        method="vaig", target="encoder.layer.2.attention", certificate=certificate(total, kind="vector"),
        tokens=tokens, offsets=offsets, vectors=vectors, outputs=tokens if out == n else ("pooled",) * out,
        meta={"texts": [text], "model": "minilm", "block": "encoder.layer.2.attention"},
    )  # fmt: skip


def phrases(text: str = "Not really funny, but moving.") -> PhraseTree:
    """A balanced tree over the words; dividends sum to 1, value = sum of the dividends inside."""
    tokens, offsets = cut(text)
    rng = np.random.default_rng(len(text))
    spans: list[tuple[int, int]] = []
    children: list[tuple[int, ...]] = []

    def grow(low: int, high: int) -> int:
        spans.append((low, high))
        children.append(())
        me = len(spans) - 1
        if high - low > 1:
            middle = (low + high) // 2
            children[me] = (grow(low, middle), grow(middle, high))
        return me

    grow(0, len(tokens))
    scores = rng.normal(size=len(tokens))
    signed = np.array([scores[low:high].sum() / np.sqrt(high - low) for low, high in spans])
    dividend = np.abs(signed) / np.abs(signed).sum()

    def value(i: int) -> float:
        return float(dividend[i]) + sum(value(c) for c in children[i])

    nodes = []
    for i, (low, high) in enumerate(spans):
        span = (offsets[low][0], offsets[high - 1][1])
        words = text[span[0] : span[1]]
        nodes.append(Phrase(span, words, value(i), float(dividend[i]), float(signed[i]), children[i],
                            "S" if i == 0 else "NP" if children[i] else ""))  # fmt: skip
    return PhraseTree(
        method="idg", target="positive", certificate=certificate(float(scores.sum())), nodes=tuple(nodes),
        tokens=tokens, offsets=offsets, scores=scores, tree="given brackets", meta={"texts": [text]},
    )  # fmt: skip


def tabular(**changed: Any) -> Explanation:
    """Features of a table: no text at all."""
    names = ("age", "income", "$debt$", "years at address")
    scores = np.array([0.4, -1.3, 0.9, 0.05])
    return Explanation(
        method="ig", target="default", certificate=certificate(float(scores.sum())), tokens=names,
        offsets=((0, 0),) * 4, scores=scores, **changed,
    )  # fmt: skip


def continuation(
    prompt: str = "The capital of France is", answer: str = " Paris, of course.", *, seed: int = 0, **changed: Any
) -> Continuation:
    """Prompt words and output tokens so far as sources; no output token is a source of itself or of earlier ones."""
    (words, at), (outputs, out_at) = cut(prompt), cut(answer)
    rng = np.random.default_rng(seed)
    mine = rng.normal(size=(len(words), len(outputs))) ** 3
    expected = np.triu(rng.normal(size=(len(outputs), len(outputs))), 1)
    matrix = np.vstack([np.zeros((1, len(outputs))), mine, expected])
    n = len(words)
    values: dict[str, Any] = {
        "method": "ig", "target": answer, "matrix": matrix, "outputs": outputs, "output_offsets": out_at,
        "certificate": certificate(float(matrix.sum()), f_baseline=-20.0),
        "certificates": tuple(certificate(float(total), f_baseline=-5.0) for total in matrix.sum(0)),
        "tokens": ("<|start|>", *words, *outputs), "offsets": ((0, 0), *at, *out_at),
        "special": (True, *[False] * (n + len(outputs))), "segments": (-1, *[0] * n, *[1] * len(outputs)),
        "meta": {"texts": [prompt, answer], "model": "smollm", "baseline": "mean", "score": "logprob"},
    }  # fmt: skip
    return Continuation(**{**values, **changed})


def broken() -> Continuation:
    """An answer with an output that is line breaks alone, as a model writes them."""
    outputs, places = ("Paris", ".", "\n\n", "The"), ((1, 6), (6, 7), (7, 9), (9, 12))
    matrix, n = np.arange(10.0).reshape(-1, 1) * np.linspace(0.1, 0.4, 4), 5
    return continuation(
        "The capital of France is", " Paris.\n\nThe", matrix=matrix, outputs=outputs, output_offsets=places,
        tokens=("<|start|>", *"The capital of France is".split(), *outputs),
        offsets=((0, 0), (0, 3), (4, 11), (12, 14), (15, 21), (22, 24), *places),
        special=(True, *[False] * 9), segments=(-1, *[0] * n, *[1] * 4),
        certificate=certificate(float(matrix.sum())), certificates=tuple(certificate(float(c)) for c in matrix.sum(0)),
    )  # fmt: skip


def long_continuation(sources: int = 500, outputs: int = 100) -> Continuation:
    words = "the film was awful but its music moved me deeply".split()
    return continuation(" ".join(words[i % 10] for i in range(sources)), " ".join(f"w{i}" for i in range(outputs)))


def passages() -> Continuation:
    """Named parts of a chat's prompt as sources; the answer so far is one more."""
    parts = {
        "passage 1": f"The Zorb is {NASTY} blue.",
        "passage 2": "東京タワーは赤い。",
        "question": "What is the Zorb?",
    }
    prompt = "<|im_start|>user\n" + "\n\n".join(parts.values()) + "<|im_end|>\n"
    spans = tuple((prompt.index(text), prompt.index(text) + len(text)) for text in parts.values())
    matrix = np.array([[0.0, 0.0], [3.1, 0.4], [-0.6, 0.1], [1.2, 0.5], [0.0, 1.1]])
    return continuation(
        prompt, " 青い 😀", matrix=matrix, tokens=("template", *parts, " 青い 😀"), offsets=((0, 0), *spans, (0, 5)),
        special=(True, *[False] * 4), segments=(-1, 0, 0, 0, 1), outputs=(" 青い", " 😀"), output_offsets=((1, 3), (4, 5)),
        certificates=(certificate(3.7), certificate(2.1)), certificate=certificate(5.8),
    )  # fmt: skip


def answer(sources: int = 3, sentences: int = 2, words: int = 6) -> Answer:
    """Sentences of an answer × sentences of sources, two each; some words in it are tricks."""
    draw = np.random.default_rng(sources)
    named = [TRICKS[k % len(TRICKS)] if k % 3 == 2 else f"word{k}" for k in range(words)]
    texts = [f"  Source {k} says {' '.join(named)}. And {k} more." for k in range(1, sources + 1)]
    message = [f"Sentence {n} is what it said." for n in range(1, sentences + 1)]
    whole = " ".join(message)
    spans = [(match.start(), match.end()) for text in texts for match in re.finditer(r"\S.*?\d more\.", text)]
    halves = [
        each
        for (a, b), text in zip(spans, texts, strict=True)
        for each in ((a, text.index("And")), (text.index("And"), b))
    ]
    matrix = draw.normal(size=(sentences, len(halves))) ** 3
    columns = tuple(certificate(float(row.sum()), f_baseline=-40.0) for row in matrix)
    starts = [whole.index(each) for each in message]
    return Answer(
        method="secant", target=f"{whole!r} (logprob)", certificate=certificate(float(matrix.sum()), f_baseline=-80.0),
        meta={"model": "smollm", "baseline": "mean", "unit": "sentence", "notes": [f"a note {NASTY}"]},
        question=f"What? {NASTY}", answer=whole, names=tuple(f"source {k + 1}" for k in range(sources)),
        sources=tuple(texts), owners=tuple(u // 2 for u in range(len(halves))), offsets=tuple(halves),
        sentence_offsets=tuple((at, at + len(each)) for at, each in zip(starts, message, strict=True)),
        lengths=(7,) * sentences, matrix=matrix, certificates=columns, repeats=((0.0, 1.0, 0.1, 0.2, 3.0),),
    )  # fmt: skip


def everything() -> dict[str, Any]:
    """One of each kind, and the awkward ones."""
    return {
        "text": small(), "japanese": japanese(), "emoji": emoji(), "nasty": nasty(), "long": long(),
        "pair": small_pair(), "interactions": interactions(), "block": block(), "pooled": block(out=1),
        "tree": phrases(), "tabular": tabular(), "continuation": continuation(), "passages": passages(),
        "answer": answer(), "answer-long": answer(8, 5, 500),
    }  # fmt: skip


if __name__ == "__main__":
    import sys
    from pathlib import Path

    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, result in everything().items():
        result.show()
        result.to_html(folder / f"{name}.html")
        result.to_png(folder / f"{name}.png")
