"""An index that explains itself: embeddings written once, hits with their reasons ever after.

A folder with a table of passages and embeddings, vector files of a few hundred passages where explanations are stored,
and a manifest written last (`build.py`). Opening reads the manifest alone.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from numbers import Integral
from pathlib import Path
from typing import Any

from pathlens.errors import InputError, ModelError, NumberError, PathlensError, StoreError, setting
from pathlens.explanation.pair import Side
from pathlens.files import checksum, only_writer, write_whole
from pathlens.text.load import load
from pathlens.types import brief
from pathlens.vectors import build as b
from pathlens.vectors.build import CONTENT, build, read_manifest
from pathlens.vectors.documents import Passage, as_list
from pathlens.vectors.encode import SideEncoder, check_model, chosen_baseline, measure_of
from pathlens.vectors.meet import Query
from pathlens.vectors.rank import Candidate, Ranking, ranked
from pathlens.vectors.store import unpack
from pathlens.vectors.table import NEIGHBOURS_FROM, SUM, IndexRow, Table, among, sum_of

__all__ = ["Index", "build"]
CHANGING = "changing.json"  # while a change is on its way: the manifest still speaks of what was before
FAR = 1e-3  # a stored score further than this from the vectors' or the model's own is of another text or model


class Index:
    """`Index.open(folder).search("a question", k=5)`. The model is the one the index was built with.

    A damaged vector file takes the explanations of its own passages and nothing else: their scores still come
    from the table, and damaged parts of the table are written again from the vector files (`repair`).
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], model: Any = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.table = Table(manifest.get("store") or str(folder / "table"), manifest["table"])
        names = ("method", "layer", "tolerance", "norm", "similarity")
        self.choices = {name: manifest[name] for name in names if manifest.get(name)}
        if (baseline := chosen_baseline(manifest["baseline"])) is not None:
            self.choices["baseline"] = baseline
        if manifest["unit"] != "spans":
            self.choices["unit"] = manifest["unit"]
        self._model = model
        self._encoder: SideEncoder | None = None
        self._file = lru_cache(maxsize=32)(self._load_file)

    def __repr__(self) -> str:
        return brief(self, str(self.folder), str(self.manifest.get("model", "")))

    @staticmethod
    def open(where: str | Path, model: Any = None) -> Index:
        """The index in a folder; refused when half written, of another format, or (with `model`) of another model."""
        folder = Path(where)
        if not folder.is_dir():
            missing = f"there is no index at {str(folder)!r}"
            raise StoreError(f"{missing}; build one: pathlens index build minilm DOCUMENTS {folder}")
        index = Index(folder, read_manifest(folder), model)
        if model is not None:
            index.encoder()
        return index

    def __len__(self) -> int:
        return self.manifest["passages"]

    @property
    def plain(self) -> bool:
        return self.manifest["storage"] == "plain"

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        one_sided: bool | None = None,
        similarity: str | None = None,
        exact: bool = False,
        prompt: str | None = None,
        prompt_name: str | None = None,
    ) -> Ranking:
        """The k nearest passages, each with the decomposition of its score.

        one_sided: each passage token against the whole query; otherwise token × token. By default what costs little: with
            stored vectors token × token (the query's vectors, then a product a hit), in a plain index one-sided (one pass
            backwards for all hits).
        exact: compare every row, also where the table has an index of neighbours (from 10,000 passages on).
        prompt, prompt_name: the query's own, for a model that reads queries and documents by different prompts.
        """
        if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
            raise InputError(f"k must be a whole number of at least 1, got {k!r}")
        encoder, given = self.encoder(), {"prompt": prompt, "prompt_name": prompt_name}
        if prompts := {name: value for name, value in given.items() if value is not None}:
            encoder = SideEncoder.of(encoder.explainer.model, **self.choices, **prompts)
        asked = Query.of(encoder, query, measure_of(self.manifest, similarity))
        count, version = min(int(k), len(self)), self._version()
        rows = self.table.nearest(asked.embedding, count, asked.measure.similarity, version, exact=exact)
        if len(rows) < count and (exact or len(self) < NEIGHBOURS_FROM):
            raise NumberError(
                f"only {len(rows)} of {count} passages have a cosine: the others' embeddings have length zero; "
                f"search with {setting(similarity='dot')}"
            )
        meta = {name: value for name, value in self.manifest.items() if name not in CONTENT}
        rows = sorted(rows, key=lambda row: (row.part, row.slot))
        single = self.plain if one_sided is None else one_sided
        if not self.plain:
            return ranked(asked, [self._candidate(asked, row) for row in rows], meta, one_sided=single)
        candidates = [Candidate(_passage(row), row.score, None, row.name) for row in rows]
        ranking = ranked(asked, candidates, meta, one_sided=single, second=self._documents())
        for hit in ranking:
            self._check_hit(hit, asked)
        return ranking

    def _documents(self) -> SideEncoder:
        """The documents' side, which reads a text as the build did."""
        encoder = self.encoder()
        truncated = bool(self.manifest.get("chosen", {}).get("truncation"))
        chosen = {**self.choices, **({"truncation": True} if truncated else {})}
        prompts = {n: self.manifest[n] for n in ("prompt", "prompt_name") if self.manifest.get(n) is not None}
        if not truncated and not prompts:
            return replace(encoder, place=1)
        return SideEncoder.of(encoder.explainer.model, 1, **chosen, **prompts)

    def _check_hit(self, hit: Any, asked: Query) -> None:
        """The model's own similarity against the store's: a text that is not the vector's would be explained wrongly."""
        similarity = hit.certificate.f_input
        size = max(1.0, abs(similarity)) if asked.measure.similarity == "dot" else 1.0
        if not abs(similarity - hit.score) <= FAR * size:
            raise self._changed(
                f"it says {hit.score:.4f} of {hit.name!r}, and the model {similarity:.4f} of the text that stands there"
            )

    def _candidate(self, query: Query, row: IndexRow) -> Candidate:
        """A row of the table with its vectors; without them (a damaged file), with the score as the table has it."""
        vectors = self._file(row.part)
        passage = _passage(row)
        if vectors is None:
            return Candidate(replace(passage, text=row.text), row.score, None, row.name)
        side = vectors[row.slot] if row.slot < len(vectors) else None
        if side is None or side.text != row.text:
            raise self._changed(f"the text of {row.name!r} is not the one its vectors were made of")
        side = unpack(replace(side, embedding=row.vector) if self.manifest["storage"] == "compact" else side)
        exact = query.score(side.embedding)
        if not abs(exact - row.score) <= FAR * query.measure.reach(query.embedding, side.embedding):
            raise self._changed(f"it says {row.score:.4f} of {row.name!r} where the vectors say {exact:.4f}")
        return Candidate(passage, exact, side, row.name)

    # ---------------------------------------------------------------- documents come and go

    def add(self, documents: Any, *, show_progress: bool = False) -> int:
        """Documents more: {id: text}, a list of texts, a file or a folder; gives how many. Ids must be new."""
        names, labels, texts = b.read(documents, self.manifest["next_document"])
        present = sorted({row.name for row in self.table.named(names, self._version())})
        if present:
            raise InputError(f"{_listed(present)} is in the index already; `update` replaces a document")
        self._change([], names, labels, texts)
        return len(texts)

    def update(self, documents: Any) -> int:
        """Documents in the place of those with the same ids."""
        names, labels, texts = b.read(documents, self.manifest["next_document"])
        self._change(self._present(names), names, labels, texts)
        return len(texts)

    def delete(self, ids: Sequence[str] | str) -> int:
        """Documents by their ids; gives how many."""
        names = [ids] if isinstance(ids, str) else as_list(ids, "ids")
        rows = self._present(names)
        if len(rows) == len(self):
            every = "these are all documents of the index"
            raise InputError(f"{every}; an index holds at least one: remove its folder instead")
        self._change(rows, [], [], [])
        return len(set(names))

    def _present(self, names: Sequence[str]) -> list[IndexRow]:
        rows = self.table.named(names, self._version())
        absent = sorted(set(names) - {row.name for row in rows})
        if absent:
            raise InputError(f"there is no document {_listed(absent)} in the index; `add` brings a new one")
        return rows

    def _change(
        self, gone: Sequence[IndexRow], names: Sequence[str], labels: Sequence[str], texts: Sequence[Any]
    ) -> None:
        """Rows out, rows in, and a manifest that speaks of both; until it is written, readers see what was before."""
        for label, text in zip(labels, texts, strict=True):
            if not isinstance(text, str):
                raise InputError(f"{label}: an index holds texts, got {type(text).__name__}")
        if len(set(names)) < len(names):
            raise InputError("the same id is given twice; a document has one id")
        documents = self._documents() if texts else None
        pieces = documents.passages(texts, chunk=bool(self.manifest.get("chunk")), names=labels) if documents else []
        parts = [dict(part) for part in self.manifest["parts"]]
        with only_writer(self.folder / b.LOCK), self._changing():
            for these in among(sorted({row.name for row in gone})):
                self.table.delete(these)
            by_number = {part["part"]: part for part in parts}
            for row in gone:
                part = by_number[row.part]
                part["passages"] -= 1
                part["gone"] = sorted([*part.get("gone", ()), row.slot])
                part["sum"] = f"{(int(part['sum'], 16) - row.mark) % SUM:064x}"
            if documents is not None:
                first = 1 + max((part["part"] for part in parts), default=-1)
                work = b.IndexWriter(self.folder, documents, self._header(), self.table, parts)
                size = b.per_part(self.manifest["storage"])
                every = [(piece, names[piece.document]) for piece in pieces]
                for number, start in enumerate(range(0, len(every), size), first):
                    parts.append(work.write(number, every[start : start + size], self.manifest["next_document"]))
            parts = [part for part in parts if part["passages"]]
            count = sum(part["passages"] for part in parts)
            self.table.settle(b.metric_of(self.manifest), count)
            gone_documents = len({row.document for row in gone})
            facts = {
                **self.manifest,
                "next_document": self.manifest["next_document"] + len(texts),
                "documents": self.manifest["documents"] - gone_documents + len(texts),
            }
            self.manifest = b.write_manifest(self.folder, facts, parts, self.table)
        b.remove_stale(self.folder, self.manifest, self.table)
        self._file.cache_clear()

    def _header(self) -> dict[str, Any]:
        """As the build's own vector files have it."""
        made = ("format", "parts", "version", "passages", "bytes", "bytes_per_document", "sha256", "table")
        return {n: v for n, v in self.manifest.items() if n not in (*made, "next_document", "documents")}

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """What an interrupted change left is undone first; a change that fails is undone at once."""
        self._undo()
        write_whole(self.folder / CHANGING, json.dumps({"version": self.manifest["version"]}).encode())
        try:
            yield
        except Exception:
            self._undo()
            raise
        (self.folder / CHANGING).unlink()

    def _undo(self) -> None:
        if (self.folder / CHANGING).exists():
            if self.table.version != self.manifest["version"]:
                self._restore()
            with suppress(OSError):
                (self.folder / CHANGING).unlink()

    def _restore(self) -> None:
        """The table as the manifest speaks of it; that is a new version, and the manifest says so."""
        self.table.restore(self.manifest["version"])
        self._write_manifest()

    def _write_manifest(self) -> None:
        """The same again, which speaks of the table's version now."""
        self.manifest = b.write_manifest(self.folder, self.manifest, self.manifest["parts"], self.table)

    def _version(self) -> int:
        """The table's version that is read: the manifest's. Another one is a change that was interrupted, or not ours."""
        if self.table.version != self.manifest["version"]:
            self._read_again()  # another process may have changed the index since
        now, ours = self.table.version, self.manifest["version"]
        if now != ours and not (self.folder / CHANGING).exists():
            raise self._changed(f"it is at version {now}, and this index wrote version {ours}")
        return ours

    def _read_again(self) -> None:
        encoder, model = self._encoder, self._model
        self.__init__(self.folder, read_manifest(self.folder), model)  # type: ignore[misc]
        self._encoder = encoder

    def _changed(self, what: str) -> StoreError:
        return StoreError(
            f"the table of {str(self.folder)!r} was changed by someone else, or is damaged: {what}",
            "`pathlens index check` says which parts differ, `pathlens index repair` takes it back to what the index wrote",
        )

    # ---------------------------------------------------------------- is everything whole?

    def verify(self) -> list[str]:
        """What is damaged, by name; an empty list when everything is whole. Part by part: memory stays flat."""
        damages = []
        for part in self.manifest["parts"]:
            try:
                if "file" in part:
                    self._read_file(part["part"])
            except PathlensError as error:
                damages.append(str(error))
        return damages + self._wrong_parts()[1]

    def _wrong_parts(self) -> tuple[list[int], list[str]]:
        """Parts of the table whose rows are not those written, by number and in words."""
        wrong, words = [], []
        known = 0
        for part in self.manifest["parts"]:
            try:
                rows = self.table.part(part["part"])
                known += len(rows)
                if len(rows) == part["passages"] and sum_of(rows) == part["sum"]:
                    continue
                names = sorted({row.name for row in rows})
                span = f" ({names[0]!r} … {names[-1]!r})" if names else ""
                what = f"part {part['part']}{span} has {len(rows)} rows of {part['passages']}"
                what += "" if len(rows) != part["passages"] else ", and its texts or numbers are not those written"
            except PathlensError as error:
                what = f"part {part['part']}: {error}"
            wrong.append(part["part"])
            words.append(f"the table of embeddings: {what}")
        with suppress(PathlensError):
            if not wrong and (count := self.table.count()) != known:
                words.append(f"the table of embeddings has {count} rows, and this index wrote {known}")
        return wrong, words

    def repair(self) -> None:
        """The table as this index wrote it: back to its version, or damaged parts anew from vector files; no model needed."""
        _, words = self._wrong_parts()
        if words:
            with suppress(PathlensError):
                if self.table.version != self.manifest["version"]:
                    self._restore()
            _, words = self._wrong_parts()
        if words:
            self._rewrite()
        elif self.table.version != self.manifest["version"]:  # joined or indexed by someone else: the rows are the same
            self._write_manifest()

    def _rewrite(self) -> None:
        """Every row again, from the vector files."""
        if self.manifest["storage"] in ("plain", "compact"):
            raise StoreError(
                f"the table of {str(self.folder)!r} is damaged, and nothing else holds its embeddings (storage "
                f"{self.manifest['storage']!r}); run the same `pathlens index build` again"
            )
        fresh = Table(self.table.where, f"{self.table.name}-again")
        parts: list[Any] = []
        for part in self.manifest["parts"]:
            sides, places = self._read_part(part["part"])
            if not parts:
                fresh.create(len(sides[0].embedding))
            whole = [
                IndexRow(part["part"], slot, place[1], place[0], place[2], side.text, side.embedding)
                for slot, (side, place) in enumerate(zip(sides, places, strict=True))
            ]
            rows = [row for row in whole if row.slot not in part.get("gone", ())]
            fresh.add(rows)
            parts.append({**part, "sum": sum_of(rows)})
        fresh.settle(b.metric_of(self.manifest), len(self))
        self.manifest = b.write_manifest(self.folder, {**self.manifest, "table": fresh.name}, parts, fresh)
        self.table = fresh
        b.remove_stale(self.folder, self.manifest, fresh)

    def encoder(self) -> SideEncoder:
        """The model with the choices of the build, checked once."""
        if self._encoder is None:
            try:
                model = load(self.manifest["model"] if self._model is None else self._model)
            except ModelError as error:
                if self._model is not None:
                    raise
                raise ModelError(
                    f"the index {str(self.folder)!r} was built with a model called {self.manifest['model']!r}, which cannot be "
                    f"found by that name ({error}); pass the model itself: Index.open(folder, model), or --model"
                ) from error
            check_model(self.manifest, model, f"the index {str(self.folder)!r}")
            self._encoder = SideEncoder.of(model, **self.choices)
        return self._encoder

    def _load_file(self, number: int) -> Sequence[Side] | None:
        """One vector file, or None when it is damaged: said once, and the others go on."""
        try:
            return self._read_file(number)
        except StoreError as error:
            warnings.warn(f"{error}. Until then its passages are found but not explained", stacklevel=5)
            return None

    def _read_file(self, number: int) -> Sequence[Side]:
        return self._read_part(number)[0]

    def _read_part(self, number: int) -> tuple[Sequence[Side], Sequence[Any]]:
        """One vector file, when it is whole and the one this index was built with: vectors, and which passages they are of."""
        entry = next(part for part in self.manifest["parts"] if part["part"] == number)
        path = self.folder / entry["file"]
        try:
            sides, header = b.load_vectors(path, self.manifest["storage"])
        except StoreError as error:
            raise StoreError(
                f"{error.what}; run the same `pathlens index build` again, which writes this file again and "
                "keeps the others"
            ) from error
        if checksum(path) != entry["sha256"]:
            raise StoreError(
                f"{str(path)!r} is whole, but not the file this index was built with; run the same `pathlens index build` again"
            )
        return sides, header["places"]


def _passage(row: IndexRow) -> Passage:
    return Passage(row.document, row.text, row.name, row.start)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" … ({len(names)} in all)" if len(names) > 3 else "")
