"""Reading: every format gives the same rows, a bad row carries its error, a bad file is one line."""

from __future__ import annotations

import gzip
import json
import os
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pathlens.corpus.formats import Source
from pathlens.corpus.reading import census, digest, rows
from pathlens.errors import InputError
from tests.support.corpora import pathlens, refused, saved

ROWS = [("a", "a good film", 1), ("b", 'said "no", twice', 0), ("c", "多くの 言葉", 1)]


def write(path, rows=ROWS):
    """The same three rows in the format of the name."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        ids, bodies, labels = zip(*rows, strict=True)
        pq.write_table(pa.table({"id": ids, "body": bodies, "label": labels}), path)
        return path
    if name.endswith(".jsonl"):
        lines = [json.dumps({"id": i, "body": b, "label": l, "nested": [1]}) for i, b, l in rows]
    elif name.endswith(".csv"):
        lines = ["id,body,label"] + [f'{i},"{b.replace(chr(34), chr(34) * 2)}",{l}' for i, b, l in rows]
    else:
        lines = ["id\tbody\tlabel"] + [f"{i}\t{b}\t{l}" for i, b, l in rows]
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.parquet", "x.csv.gz", "x.jsonl.gz"])
def test_every_format_gives_the_same_rows(name, tmp_path):
    source = Source(str(write(tmp_path / name)), text="body", id="id")
    lines = list(rows(source))
    assert [(row.number, row.id, row.text, row.kept) for row in lines] == [
        (k, i, b, (str(l),)) for k, (i, b, l) in enumerate(ROWS)
    ]
    assert all(row.error is None for row in lines)
    counted = census(source)
    assert (counted.rows, counted.bad, counted.kept) == (3, 0, ("label",))
    assert counted.characters == sum(len(body) for _, body, _ in ROWS) and counted.longest == 1


def test_a_folder_is_its_files_one_after_another(tmp_path):
    write(tmp_path / "1.csv")
    write(tmp_path / "2.parquet")
    (tmp_path / ".hidden.csv").write_text("junk")
    lines = list(rows(Source(str(tmp_path), text="body")))
    assert [row.number for row in lines] == list(range(6)) and lines[3].text == ROWS[0][1]


def test_data_sets_come_through_datasets(tmp_path):
    import datasets

    from pathlens.corpus.formats import open_hub

    made = datasets.Dataset.from_dict({"body": [b for _, b, _ in ROWS], "label": [1, 0, 1]})
    made.save_to_disk(tmp_path / "saved")
    lines = list(rows(Source(str(tmp_path / "saved"), text="body")))
    assert [row.text for row in lines] == [b for _, b, _ in ROWS] and lines[0].kept == ("1",)
    datasets.DatasetDict({"test": made}).save_to_disk(tmp_path / "splits")
    assert census(Source(str(tmp_path / "splits"), text="body", split="test")).rows == 3
    (tmp_path / "hub").mkdir()
    write(tmp_path / "hub" / "x.csv")  # what `load_dataset` makes of a name
    opened = open_hub(Source(str(tmp_path / "hub"), text="body"))
    assert [record["body"] for record in opened.records(opened.columns)] == [b for _, b, _ in ROWS]


def test_quotes_are_plain_in_tsv_and_quotes_in_csv(tmp_path):
    (tmp_path / "x.tsv").write_text('text\tlabel\n"a quote that never ends\t1\nnext\t0\n')
    assert [row.text for row in rows(Source(str(tmp_path / "x.tsv")))] == ['"a quote that never ends', "next"]
    (tmp_path / "x.csv").write_text('text,label\n"two\nlines, one text",1\n')
    assert [row.text for row in rows(Source(str(tmp_path / "x.csv")))] == ["two\nlines, one text"]
    only = Source(str(tmp_path / "x.tsv"), quoting=True)
    assert len(list(rows(only))) == 1, "asked for, the quote swallows the line's end"


def test_tables_without_a_header_and_plain_text(tmp_path):
    (tmp_path / "x.csv").write_text("1\tx\tfirst text\n2\ty\tsecond\textra\n3\tz\n")
    lines = list(rows(Source(str(tmp_path / "x.csv"), text="2", id="0", separator="\t", header=False, quoting=False)))
    assert [row.text for row in lines] == ["first text", "second", None] and "fields" in lines[2].error
    (tmp_path / "x.txt").write_bytes("one\r\n\ntw\x85o\n".encode("cp1252", "replace"))
    read = [row.text for row in rows(Source(str(tmp_path / "x.txt"), encoding="cp1252"))]
    assert read[0] == "one" and len(read) == 2, "a line ends at its end, not at every character that may end one"


LATIN = "text;label\ngood café;1\nbad;0\nnaïve but fun;1\n"
TEXTS = ["good café", "bad", "naïve but fun"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_table_is_read_as_spreadsheets_save_it(tmp_path, encoding, packed):
    """Not a row is lost, and what was taken for Windows-1252 is named."""
    file = tmp_path / ("x.csv.gz" if packed else "x.csv")
    content = LATIN.encode(encoding)
    file.write_bytes(gzip.compress(content) if packed else content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [row.text for row in rows(Source(str(file)))] == TEXTS
    assert ["x.csv" in str(each.message) and "Windows-1252" in str(each.message) for each in caught] == [True] * (
        encoding == "cp1252"
    )


def test_every_command_reads_it_and_rows_left_out_are_counted(tmp_path, tmp_path_factory, monkeypatch, capfd):
    classifier, encoder = (saved(tmp_path_factory, kind) for kind in ("classifier", "encoder"))
    (tmp_path / "t.csv").write_bytes(LATIN.encode("cp1252") + b";0\n")
    (tmp_path / "lines.txt").write_bytes("good café\nbad\n".encode("cp1252"))
    commands = {
        "rank": (encoder, "a film", tmp_path / "t.csv", "--one-sided", "--json", "-"),
        "index": ("build", encoder, tmp_path / "t.csv", tmp_path / "index", "--plain"),
        "evaluate": (classifier, tmp_path / "t.csv", "--method", "secant", "--json", "-"),
        "run": (classifier, tmp_path / "t.csv", "--out", tmp_path / "out", "--method", "secant"),
    }
    for name, arguments in commands.items():
        code, out, err = pathlens(monkeypatch, capfd, name, *arguments)
        assert code == 0 and err.count("Windows-1252") == 1, (name, err)
        if name == "run":
            assert "4 rows" in out and "3 explained" in out and "row 3: column 'text' is empty" in out
        else:
            assert "1 of 4 rows" in err and "the first is row 3" in err, (name, err)
    code, out, err = pathlens(monkeypatch, capfd, "rank", encoder, "a film", tmp_path / "lines.txt", "--one-sided")
    assert code == 0 and "café" in out and err.count("Windows-1252") == 1


def test_a_bad_row_carries_its_error_and_the_others_go_on(tmp_path):
    (tmp_path / "x.tsv").write_bytes(
        "text\tlabel\ngöööd\t1\n".encode() + b"b\xff\xfed\t0\n \t1\nthree\tfields\there\nlast\t1\n"
    )
    table_rows = list(rows(Source(str(tmp_path / "x.tsv"))))
    assert [row.error is None for row in table_rows] == [True, False, False, False, True]
    for row, word in zip(table_rows[1:4], ("encoding", "empty", "3 fields"), strict=True):
        assert word in row.error
    lines = ['{"text": "good"}', "not json", '{"text": 7}', '{"text": null}', "[1]", '{"other": 1}', '{"text": "x"}']
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    table_rows = list(rows(Source(str(tmp_path / "x.jsonl"))))
    assert [row.error is None for row in table_rows] == [True, False, False, False, False, False, True]
    assert "int" in table_rows[2].error and "not JSON" in table_rows[1].error
    pq.write_table(pa.table({"text": pa.array(["good", None, ""])}), tmp_path / "x.parquet")
    assert [row.error is None for row in rows(Source(str(tmp_path / "x.parquet")))] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("x.csv", "id;text\n1;good, not bad\n", "good, not bad"),
        ("x.csv", "id\ttext\n1\tgood; well\n", "good; well"),
        ("x.tsv", "id,text\n1,good\n", "good"),
        ("x.csv", 'id,"text"\n1,"good; well"\n', "good; well"),
        ("x.csv", "a;b;c,text\n1;2;3,good\n", "good"),
        ("x.csv", "text\ngood; well\n", "good; well"),
    ],
)
def test_the_header_says_what_stands_between_columns(tmp_path, name, content, text):
    (tmp_path / name).write_text(content)
    assert [row.text for row in rows(Source(str(tmp_path / name)))] == [text]


def test_a_table_serves_wherever_a_file_is_taken(tmp_path):
    from pathlens.cli.documents import read_documents, read_sources

    (tmp_path / "faq.csv").write_text("id;answer\n1;Boil it.\n2;\n3;Fry it.\n")
    named = {"faq.csv:1": "Boil it.", "faq.csv:3": "Fry it."}
    assert read_documents(str(tmp_path / "faq.csv"), "answer") == named
    (tmp_path / "one.txt").write_text("\ufeffWhole.\nTwo lines.", encoding="utf-8")
    files = [tmp_path / "faq.csv", tmp_path / "one.txt"]
    assert read_sources(files, "answer") == {**named, "one.txt": "Whole.\nTwo lines."}
    with pytest.raises(InputError, match="no column 'text'"):
        read_documents(str(tmp_path / "faq.csv"), "text")


def test_the_digest_sees_every_change(tmp_path):
    source = Source(str(write(tmp_path / "x.csv")), text="body")
    whole = digest(rows(source))
    assert whole == digest(list(rows(source))) and whole != digest(list(rows(source))[:2])
    other = [*ROWS[:2], ("c", ROWS[2][1] + " ", 1)]
    assert whole != digest(rows(Source(str(write(tmp_path / "y.csv", other)), text="body")))
    labels = [*ROWS[:2], (*ROWS[2][:2], 0)]
    relabelled = digest(rows(Source(str(write(tmp_path / "z.csv", labels)), text="body")))
    assert whole != relabelled


def test_limit_reads_no_further(tmp_path):
    (tmp_path / "x.csv").write_text("text\nfirst\nsecond\n")
    assert census(Source(str(tmp_path / "x.csv")), 1).rows == 1
    with pytest.raises(InputError, match="none of the 2 rows"):
        pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "numbers.parquet")
        census(Source(str(tmp_path / "numbers.parquet")))


BAD = {
    "missing column": ("x.csv", b"body,label\nhello,1\n", ["no column 'text'", "body, label"]),
    "wrong encoding": ("x.csv", "text\nhallo\n".encode("utf-16-le"), ["not utf-8 text", "--encoding"]),
    "no text at all": ("x.jsonl", b'{"text": 1}\n{"text": null}\n', ["none of the 2 rows", "int"]),
    "not JSON": ("x.jsonl", b"plain words\n", ["not JSON lines"]),
    "an array": ("x.json", b'[{"text": "a"}]', ["JSON array"]),
    "an empty file": ("x.csv", b"", ["is empty"]),
    "a header alone": ("x.csv", b"text,label\n", ["no rows"]),
    "no Parquet": ("x.parquet", b"PAR1 but not really", ["not a whole Parquet file"]),
    "half a Parquet": ("x.parquet", b"PAR1" + b"\0" * 100, ["not a whole Parquet file"]),
    "another kind": ("x.docx", b"PK", ["cannot tell how to read"]),
    "a damaged gzip": ("x.csv.gz", b"\x1f\x8b\x08\x00broken", ["damaged"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_read_is_one_line(case, tmp_path, tmp_path_factory, monkeypatch, capfd):
    name, content, words = BAD[case]
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "out"
    done = pathlens(monkeypatch, capfd, "run", saved(tmp_path_factory), tmp_path / name, "--out", out)
    refused(done, *words)
    assert not out.exists(), "nothing was begun"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["missing.csv"], ["no file or folder 'missing.csv'"]),
        (["{tmp}"], ["holds no data file"]),
        (["{file}", "--encoding", "klingon"], ["klingon"]),
        (["{file}", "--keep", "nope"], ["nope", "--keep"]),
        (["{file}", "--id", "nope"], ["nope", "--id"]),
        (["{file}", "--limit", "0"], ["limit"]),
        (["{file}", "--shard", "2/2"], ["shard", "2/2"]),
        (["{file}", "--shard", "x"], ["i/n"]),
        (["{file}", "--method", "magic"], ["magic"]),
        (["{file}", "--target", "nobody"], ["nobody", "LABEL_0"]),
        (["{file}", "--method", "ij"], ["ij"]),
        (["{file}", "--option", "nope=1"], ["nope"]),
        (["{file}", "--engine", "magic"], ["local", "ray"]),
        (["{file}", "--workers", "0"], ["workers"]),
        (["{file}", "--address", "auto"], ["--engine ray"]),
        (["no/such-data-set-anywhere"], ["no/such-data-set-anywhere"]),
    ],
)
def test_wrong_arguments_are_one_line(arguments, words, tmp_path, tmp_path_factory, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "t.csv").write_text("text,label\nthe movie was great,1\n")
    filled = [a.format(tmp=tmp_path / "inner", file=tmp_path / "t.csv") for a in arguments]
    model = saved(tmp_path_factory)
    refused(pathlens(monkeypatch, capfd, "run", model, "--out", tmp_path / "out", *filled), *words)
    assert not (tmp_path / "out").exists()


def test_places_that_cannot_be_written_are_one_line(tmp_path, tmp_path_factory, monkeypatch, capfd):
    (tmp_path / "t.csv").write_text("text\nthe movie was great\n")
    ask = ["run", saved(tmp_path_factory), tmp_path / "t.csv", "--out"]
    refused(pathlens(monkeypatch, capfd, *ask, tmp_path / "t.csv"), "is a file")
    refused(pathlens(monkeypatch, capfd, *ask, "/proc/nowhere/out"), "cannot write to")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    refused(pathlens(monkeypatch, capfd, *ask, tmp_path / "full", "--overwrite"), "not empty", "mine.txt")
    refused(pathlens(monkeypatch, capfd, *ask, tmp_path / "full"), "not empty", "mine.txt")
    assert os.listdir(tmp_path / "full") == ["mine.txt"] or set(os.listdir(tmp_path / "full")) <= {
        "mine.txt",
        ".lock-0-of-1",
    }


def test_half_a_character_and_a_bottomless_line_are_rows_with_an_error(tmp_path, tmp_path_factory, monkeypatch, capfd):
    """JSON may say "\ud800", which no file can hold; and nest deeper than anyone reads."""
    deep = '{"text": "x", "name": ' + "[" * 100_000 + "]" * 100_000 + "}"
    lines = [
        '{"text": "good", "name": "a"}',
        r'{"text": "bad \ud800", "name": "b"}',
        deep,
        r'{"text": "fine", "name": "\udfff"}',
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    for column in ("--id", "--keep"):
        ask = ["run", saved(tmp_path_factory), tmp_path / "x.jsonl", "--out", tmp_path / column, "--n-steps", 2]
        code, output, error = pathlens(monkeypatch, capfd, *ask, column, "name")
        assert (code, error) == (0, "") and "2 explained" in output and "2 failed" in output, (output, error)
    table_rows = [row.error for row in rows(Source(str(tmp_path / "x.jsonl")))]
    assert (
        table_rows[0] is None
        and "half a character" in table_rows[1]
        and "not JSON" in table_rows[2]
        and table_rows[3] is None
    )


def test_a_run_inside_the_folder_of_data_is_no_data(tmp_path, tmp_path_factory, monkeypatch, capfd):
    (tmp_path / "a.csv").write_text("text,label\ngood film,x\nbad film,y\n")
    ask = ["run", saved(tmp_path_factory), tmp_path, "--out", tmp_path / "out", "--n-steps", 2]
    assert "2 rows" in pathlens(monkeypatch, capfd, *ask)[1]
    assert "2 rows" in (output := pathlens(monkeypatch, capfd, *ask)[1]) and "2 were there already" in output
    assert census(Source(str(tmp_path / "out"))).rows == 2, "asked for by its name, it is"


def test_a_damaged_gzip_file_is_one_line(tmp_path):
    packed = bytearray(gzip.compress(b"text\n" + b"a good film\n" * 50))
    packed[10] |= 0b110  # a block of a kind that does not exist: zlib's own error
    (tmp_path / "x.csv.gz").write_bytes(packed)
    with pytest.raises(InputError, match="is damaged"):
        census(Source(str(tmp_path / "x.csv.gz")))


def test_columns_without_a_name_and_splits_that_are_not_there(tmp_path):
    """A sheet's empty columns at the right are nobody's; a split is named."""
    datasets = pytest.importorskip("datasets")
    (tmp_path / "x.csv").write_text("text,label,,\ngood film,x,,\n")
    assert census(Source(str(tmp_path / "x.csv"))).kept == ("label",)
    (tmp_path / "y.csv").write_text("text,label,label\ngood film,x,y\n")
    with pytest.raises(InputError, match="'label' twice"):
        census(Source(str(tmp_path / "y.csv")))
    datasets.DatasetDict({"test": datasets.Dataset.from_dict({"text": ["good"]})}).save_to_disk(tmp_path / "d")
    with pytest.raises(InputError, match="no split 'train'; --split takes one of test"):
        census(Source(str(tmp_path / "d")))
    assert census(Source(str(tmp_path / "d"), split="test")).rows == 1
