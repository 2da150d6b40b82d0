"""The questions, asked of the shards by DuckDB. The one file that imports it.

Words are sums of their tokens, lower case. A word's mean is over texts (of its mean in each text it is in), so that
one text that repeats a word does not count as many; intervals are Student's, 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pathlens.errors import MissingError, StoreError, first_line

# Student's quantile: exact for 2, 3 and 4 texts, from 5 on by Cornish and Fisher's expansion around the normal one
# (0.3 % too small at 5 texts, less with more)
INTERVAL = """
create macro student(n) as case n when 2 then 12.70620 when 3 then 4.302653 when 4 then 3.182446
    else 1.959964 + 2.372271 / (n - 1) + 2.822499 / (n - 1) ** 2 + 2.555849 / (n - 1) ** 3 end;
create macro half(sd, n) as case when n > 1 then student(n) * sd / sqrt(n) end;
"""

# one row per word of a text, or of both texts of a pair, which have no score by word: `home` is the word's number, or
# the token's where tokens do not add up to words
UNITS = """
create temp table unit as
with piece as (
    select row, target, text, text_b, unnest(tokens) as token, unnest(scores) as score, unnest(offsets) as place,
        unnest(special) as special, unnest(words) as word, unnest(segments) as segment,
        unnest(range(len(tokens))) as position
    from run where scores is not null or kind = 'PairExplanation'
    union all
    select row, target, text, text_b, unnest(tokens_b), null, unnest(offsets_b), unnest(special_b), unnest(words_b), 1,
        unnest(range(len(tokens_b)))
    from run where kind = 'PairExplanation'
), whole as (
    select row, any_value(target) as target, coalesce(segment, 0) as segment, {home} as home, sum(score) as score,
        min(place[1]) as first, max(place[2]) as last,
        any_value(case when segment = 1 then text_b else text end) as body, any_value(token) as token
    from piece where not coalesce(special, false) group by row, segment, {home}
)
select row, target, segment, home, score, first, last,
    lower(trim(case when last > first then substring(body, first + 1, last - first) else token end)) as word
from whole
"""
SUMMED = """
select {keys}, word, sum(times)::bigint as times, count(*) as texts, avg(score) as mean,
    avg(score) - half(stddev_samp(score), count(*)) as low, avg(score) + half(stddev_samp(score), count(*)) as high
from (select {keys}, word, row, avg(score) as score, count(*) as times from {source} where score is not null
    group by {keys}, word, row)
group by {keys}, word having count(*) >= {least}
"""
# strongest first: by the end of the interval that is nearer to zero, so that few lucky texts do not lead
STRONGEST = """
select * exclude (place, side) from (
    select *, sign(mean) as side, row_number() over (
        partition by {keys}, sign(mean)
        order by greatest(abs(mean) - coalesce(high - mean, abs(mean)), 0) desc, abs(mean) desc, word
    ) as place from ({summed})
) where place <= {most} order by {keys}, mean desc, word
"""
# of ij, whose matrix begins with the reference, and of ih, where both orders of two words are one pair
PAIRS = """
create temp table pair as
with cell as (
    select row, target, kind = 'PairExplanation' as two, unnest(matrix) as score, unnest(range(len(matrix))) as k,
        shape[2] as wide, words, coalesce(words_b, words) as others
    from run where kind in ('PairExplanation', 'Interactions')
), placed as (
    select row, target, two, score, words[1 + k // wide - two::int] as a, others[1 + k % wide - two::int] as b from cell
)
select p.row, any_value(p.target) as target, sum(p.score) as score,
    least(x.word, y.word) || ' – ' || greatest(x.word, y.word) as word
from placed p
    join unit x on p.row = x.row and x.home = if(two, a, least(a, b)) and (x.segment = 0 or not two)
    join unit y on p.row = y.row and y.home = if(two, b, greatest(a, b)) and (y.segment = 1 or not two)
where a >= 0 and b >= 0 and (two or a <> b) and not isnan(p.score)
group by p.row, x.home, y.home, x.word, y.word
"""
SPEECH = """
create temp table spoken as
select u.row, u.target, u.score, coalesce(arg_max(t.kind, least(u.last, t.last) - greatest(u.first, t.first)), 'other') as word
from unit u join tagged r on u.row = r.row
    left join tag t on u.row = t.row and u.segment = t.segment and t.first < u.last and t.last > u.first
group by u.row, u.target, u.home, u.segment, u.score
"""
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


class Questions:
    """A connection over one run's shards."""

    def __init__(self, files: Sequence[Path], *, by_word: bool = True) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise MissingError('summaries need DuckDB: pip install "pathlens[corpus]"') from error
        self.connection = duckdb.connect()
        for statement in INTERVAL.strip().split(";\n"):
            self.connection.execute(statement)
        listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
        try:
            self.connection.execute(f"create view run as select * from read_parquet([{listed}])")
            self.kind = self.first("select any_value(kind) from run where kind is not null")
        except duckdb.Error as error:
            line = first_line(error)
            raise StoreError(f"a shard cannot be read ({line}); the same `pathlens run` writes it again") from error
        self.connection.execute(UNITS.format(home="word" if by_word else "position"))
        self.connection.execute(PAIRS)
        self.has_scores = bool(self.first("select count(scores) from run"))

    def __enter__(self) -> Questions:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(query, list(parameters)).fetchall()

    def first(self, query: str) -> Any:
        return self.rows(query)[0][0]

    def overview(self) -> dict[str, Any]:
        """Counts over the whole run."""
        names = ("rows", "failed", "explained", "converged", "checked", "agreed", "tokens", "passes")
        counts = self.rows(
            "select count(*), count(error), count(*) - count(error), count(*) filter (converged), count(agrees), "
            "count(*) filter (agrees), coalesce(sum(len(tokens) + coalesce(len(tokens_b), 0)), 0)::bigint, coalesce(sum(passes), 0)::bigint from run"
        )[0]
        return dict(zip(names, counts, strict=True))

    def errors(self) -> list[tuple[Any, ...]]:
        """The most frequent kinds of errors (numbers in them are masked), how often, and one row that has it."""
        return self.rows(
            "select regexp_replace(error, '[0-9]+', 'N', 'g'), count(*), min(row) "
            "from run where error is not null group by 1 order by 2 desc, 1 limit 20"
        )

    def gaps(self) -> list[tuple[Any, ...]]:
        """(quantile, gap, relative gap, nodes, passes)."""
        names = ("gap", "relative_gap", "nodes", "passes")
        asked = ", ".join(f"quantile_cont({name}, {list(QUANTILES)})" for name in names)
        columns = self.rows(f"select {asked} from run where error is null")[0]
        return list(zip(QUANTILES, *(each or [None] * len(QUANTILES) for each in columns), strict=True))

    def gap_histogram(self) -> list[tuple[Any, ...]]:
        """(exponent, rows): relative gaps between 10^k and 10^(k+1); what is below 1e-9 counts as that."""
        return self.rows(
            "select floor(log10(greatest(relative_gap, 1e-9)))::int, count(*) from run "
            "where error is null and isfinite(relative_gap) group by 1 order by 1"
        )

    def summed(self, source: str, least: int) -> list[tuple[Any, ...]]:
        """(class, word, times, texts, mean, low, high) of every word, or pair of words."""
        summed = SUMMED.format(keys="target", source=source, least=least)
        return self.rows(f"select * from ({summed}) order by target, mean desc, word")

    def strongest(self, source: str, most: int, least: int, keys: str = "target") -> list[tuple[Any, ...]]:
        """The same of the strongest alone, up and down in every class."""
        summed = SUMMED.format(keys=keys, source=source, least=least)
        return self.rows(STRONGEST.format(keys=keys, summed=summed, most=most))

    def values(self, column: str) -> int:
        return self.first(f"select count(distinct {quoted(column)}) from run")

    def slices(self, column: str) -> list[tuple[Any, ...]]:
        """(value, rows, failed, converged)."""
        return self.rows(  # by place: a column of the data may have any name
            f"select {quoted(column)}, count(*), count(error), count(*) filter (converged) from run "
            "group by 1 order by 1 nulls last"
        )

    def changes_by_slice(self, column: str, least: int) -> list[tuple[Any, ...]]:
        """(value, class, rows, mean change, low, high) of classes that `least` rows have: two classes share no mean."""
        change, spread = "avg(f_input - f_baseline)", "stddev_samp(f_input - f_baseline)"
        return self.rows(
            f"select {quoted(column)}, target, count(*), {change}, {change} - half({spread}, count(*)), "
            f"{change} + half({spread}, count(*)) from run where error is null and f_input is not null "
            f"group by 1, 2 having count(*) >= {least} order by 1 nulls last, 2"
        )

    def words_by_slice(self, column: str, most: int, least: int) -> list[tuple[Any, ...]]:
        """(value, class, word, times, texts, mean, low, high): what raises one class lowers another, so they are kept apart."""
        joined = f"(select u.*, r.{quoted(column)} as slice from unit u join run r on u.row = r.row)"
        return self.strongest(joined, most, least, "slice, target")

    def texts(self, most: int) -> list[tuple[Any, ...]]:
        """(row, text, second text) of explained rows, evenly over the run where there are more than `most`."""
        count = self.first("select count(*) from run where error is null")
        step = max(1, -(-count // most))
        return self.rows("select row, text, text_b from run where error is null and row % ? = 0 order by row", [step])

    def speech(
        self, tags: Iterable[tuple[int, int, int, int, str]], rows: Sequence[int], least: int
    ) -> list[tuple[Any, ...]]:
        """(class, part of speech, times, texts, mean, low, high), from (row, segment, first, last, kind)."""
        import pyarrow as pa

        names = ("row", "segment", "first", "last", "kind")
        columns = [list(column) for column in zip(*tags, strict=True)] or [[] for _ in names]
        self.connection.register("tag", pa.table(dict(zip(names, columns, strict=True))))
        self.connection.register("tagged", pa.table({"row": list(rows)}))
        self.connection.execute(SPEECH)
        return self.summed("spoken", least)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
