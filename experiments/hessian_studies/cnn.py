"""A small convolutional classifier of words, and how pathlens explains it: one more model kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import regex
import torch
from torch import Tensor, nn
from torch.nn import functional

from pathlens.text.adapter import Case, Request, TextModel
from pathlens.types import Ends

WIDEST = 8


def words_of(text: str) -> list[str]:
    return regex.findall(r"\w+|[^\w\s]", text.lower())


class Convolutions(nn.Module):
    """Embedding 32, 32 filters of width 3 and 32 of width 8, max-pool, dense 50, ReLU throughout: (B, S, 32) → (B,)."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32, padding_idx=0)
        self.branches = nn.ModuleList([nn.Conv1d(32, 32, width) for width in (3, WIDEST)])
        self.dense, self.last = nn.Linear(64, 50), nn.Linear(50, 1)

    def forward(self, rows: Tensor) -> Tensor:
        padded = functional.pad(rows.transpose(1, 2), (WIDEST - 1, WIDEST - 1))
        pooled = torch.cat([torch.relu(branch(padded)).amax(2) for branch in self.branches], dim=1)
        return self.last(torch.relu(self.dense(pooled)))[:, 0]


@dataclass(frozen=True)
class CnnScore:
    net: Convolutions

    def __call__(self, points: Tensor, cases: Sequence[Case]) -> Tensor:
        present = torch.arange(points.shape[1])[None] < torch.tensor([len(case) for case in cases])[:, None]
        return self.net(points * present[..., None].to(points))


class Cnn(TextModel):
    """Positive-against-negative logit; the baseline is the padding row, zero."""

    kind = "convolutional classifier"
    name = "cnn"

    def __init__(self, net: Convolutions, vocabulary: dict[str, int]) -> None:
        self.net, self.vocabulary = net.eval().requires_grad_(False), vocabulary

    def ids(self, text: str) -> Tensor:
        return torch.tensor([self.vocabulary.get(word, 1) for word in words_of(text)])

    def case(self, text: Any, text_b: Any = None, *, request: Request) -> Case:
        spans = [match.span() for match in regex.finditer(r"\w+|[^\w\s]", text)]
        end = self.net.embedding(self.ids(text)).detach()
        score = CnnScore(self.net)
        return Case(
            ends=Ends(torch.zeros_like(end), end, torch.zeros(len(end), dtype=torch.bool)),
            score=score,
            pack=score,
            texts=(text,),
            tokens=tuple(text[a:b] for a, b in spans),
            offsets=tuple(spans),
            segments=(0,) * len(spans),
            target_name="positive − negative",
            baseline="padding",
        )


def train_cnn(texts: list[str], labels: list[int], *, epochs: int, seed: int = 0) -> Cnn:
    counts = Counter(word for text in texts for word in words_of(text))
    vocabulary = {word: k + 2 for k, (word, count) in enumerate(counts.most_common()) if count > 1}
    torch.manual_seed(seed)
    net = Convolutions(len(vocabulary) + 2)
    model = Cnn(net, vocabulary)
    ids = [model.ids(text)[:50] for text in texts]
    net.requires_grad_(True).train()
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-5)
    y = torch.tensor(labels, dtype=torch.float32)
    for _ in range(epochs):
        for rows in torch.randperm(len(ids)).split(64):
            batch = nn.utils.rnn.pad_sequence([ids[k] for k in rows], batch_first=True)
            embedded = functional.dropout(net.embedding(batch), 0.3)
            loss = functional.binary_cross_entropy_with_logits(net(embedded), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return Cnn(net, vocabulary)


def accuracy(model: Cnn, texts: list[str], labels: list[int]) -> float:
    with torch.no_grad():
        good = [
            (float(model.net(model.net.embedding(model.ids(t))[None])) > 0) == bool(y)
            for t, y in zip(texts, labels, strict=True)
        ]
    return sum(good) / len(good)
