"""Options of a run over a data set: each is a field here, and Python and the command line read it.

Light: nobody who asks what may be chosen waits for pyarrow or a database.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathlens.checks import check_options, option, plain_number
from pathlens.errors import InputError

Share = tuple[int, int]  # (i, n): every n-th shard from the i-th
ENGINES = ("local", "ray")
LEAST = 5  # texts a word must be in to stand in a summary
MOST = 10  # words a summary shows in each direction


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Which rows, how they are cut, and who works; names as in `pathlens.corpus.run`."""

    limit: int | None = option(None, "The first so many rows; may be raised later.", bounds=(1, None))
    shard: Share = option((0, 1), "i/n: every n-th shard from the i-th, for n machines.")
    overwrite: bool = option(False, "Begin anew in a folder that holds a run.")
    workers: int = option(1, "Worker processes, one thread each (1: this process).", bounds=(1, None))
    engine: str = option("local", "Who works: this machine, or a cluster.", choices=ENGINES)
    address: str | None = option(None, "A Ray cluster (auto, host:port); none: one is started here.")
    gpus: float = option(0.0, "GPUs of each Ray worker.")
    batch_size: int = option(64, "Texts worked on together.", bounds=(1, None))
    # what is done again at most after a kill; a file of some 100 kB
    rows_per_shard: int = option(256, "Rows of each Parquet file.", bounds=(1, None))

    def __post_init__(self) -> None:
        check_options(self)
        pair = [plain_number(each) for each in self.shard] if isinstance(self.shard, list | tuple) else []
        if not (len(pair) == 2 and all(type(each) is int for each in pair) and 0 <= pair[0] < pair[1]):
            shown = "/".join(map(str, pair)) if len(pair) == 2 else repr(self.shard)
            raise InputError(f"shard must be (i, n), typed i/n, with 0 ≤ i < n (0/4 to 3/4), got {shown}")
        if self.gpus < 0:
            raise InputError(f"gpus must be a number from 0 upwards, got {self.gpus!r}")
        if self.engine != "ray" and (self.address is not None or self.gpus):
            raise InputError("address and gpus are for the engine ray: add --engine ray")
