"""Ray: the same batches on many machines. The one file that imports ray.

`this process, which reads → actors, each with the model loaded once → this process, which writes the shards`

Few batches are with the actors at a time: reading waits while they are busy. A task whose worker died is tried again,
on a worker that takes its place.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pathlens.corpus.execute import QUEUED, Engine
from pathlens.corpus.formats import DataRow
from pathlens.corpus.job import PreparedRun, Recipe
from pathlens.corpus.reading import RowBatch
from pathlens.corpus.schema import ExplainedBatch
from pathlens.errors import InputError, MissingError, ModelError, PathlensError

PATIENCE = 45.0  # seconds until a cluster must have answered; after 60 Ray ends the whole process
KNOCK = 5.0  # seconds until its port must have
RETRIES = 3  # times a task is tried again when its worker died


@contextlib.contextmanager
def on_ray(job: PreparedRun, workers: int, address: str | None, gpus: float) -> Iterator[Engine]:
    """Actors on a cluster, reached and found large enough before anything is written.

    `address` None starts one here, for this run alone, and only if there is something to do.
    """
    job.recipe.check_loadable("Ray's workers")
    ray = _ray()
    if address is not None:
        _knock(address)

    with contextlib.ExitStack() as stack:

        def connect() -> int:
            stack.enter_context(connected(ray, address, workers))
            return fitting(ray.available_resources(), workers, gpus)

        count = connect() if address is not None or gpus or ray.is_initialized() else 0

        def engine(wanted: Iterable[RowBatch]) -> Iterator[tuple[RowBatch, ExplainedBatch]]:
            batches = iter(wanted)
            if (first := next(batches, None)) is not None:
                yield from _stream(ray, job.recipe, chain([first], batches), count or connect(), gpus)

        yield engine


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no advice about GPUs nobody asked for
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # read when ray is imported
    try:
        import ray
    except ImportError as error:
        raise MissingError('the engine ray needs: pip install "pathlens[ray]"') from error
    return ray


def _knock(address: str) -> None:
    """A host that does not answer is named at once, not after Ray has tried for minutes."""
    if address in ("auto", "local") or not address.rpartition(":")[2].isdigit():
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`, or leave --address out"
        ) from error


@contextlib.contextmanager
def connected(ray: Any, address: str | None, workers: int) -> Iterator[None]:
    """A cluster for as long as it is needed; one that was connected already is left as it was."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        # As many logical CPUs as this run needs, whatever the machine has. Started from this very thread: the
        # processes of a cluster end with the thread that started them.
        ray.init(num_cpus=workers, _node_ip_address="127.0.0.1", include_dashboard=False, **quiet)
    else:
        _within(lambda: ray.init(address=address, **quiet), f"the Ray cluster at {address!r}")
    try:
        yield
    finally:
        ray.shutdown()


def _within(action: Any, what: str) -> None:
    """Done within the time, or one line."""
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            action()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    with _mute():
        thread.start()
        thread.join(PATIENCE)
    if thread.is_alive():
        raise InputError(f"{what} did not answer within {PATIENCE:.0f} s; is it a Ray cluster of the same version?")
    if failed:
        raise InputError(f"{what} could not be reached ({_line(failed[0])})") from failed[0]


@contextlib.contextmanager
def _mute() -> Iterator[None]:
    """Ray's native part writes its attempts straight to the error stream; the one line that counts comes after."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def fitting(free: Any, workers: int, gpus: float) -> int:
    """How many workers fit the cluster; an error when not even one does."""
    fits = int(free.get("CPU", 0))
    if gpus:
        fits = min(fits, int(free.get("GPU", 0) / gpus))
    if fits < 1:
        needed = "1 logical CPU" + (f" and {gpus:g} GPU" if gpus else "")
        raise InputError(
            f"the Ray cluster is too small: one worker needs {needed}, free are {free.get('CPU', 0):g} CPUs and "
            f"{free.get('GPU', 0):g} GPUs; start it with more (ray start --head --num-cpus {workers}), or stop others"
        )
    if fits < workers:
        warnings.warn(f"the Ray cluster has room for {fits} workers, not {workers}: going on with {fits}", stacklevel=2)
    return min(fits, workers)


class Explain:
    """An actor: the model is loaded once, then one batch after another."""

    def __init__(self, recipe: Recipe) -> None:
        import torch

        if not torch.cuda.is_available():
            torch.set_num_threads(1)
        self.recipe, self.explainer = recipe, recipe.explainer()

    def explain(self, rows: tuple[DataRow, ...]) -> ExplainedBatch:
        return self.recipe.explain(self.explainer, rows)


def _stream(
    ray: Any, recipe: Recipe, batches: Iterator[RowBatch], workers: int, gpus: float
) -> Iterator[tuple[RowBatch, ExplainedBatch]]:
    """Batches go to actors as these have room, and come back in any order."""
    actor = ray.remote(num_cpus=1, num_gpus=gpus or None, max_restarts=-1, max_task_retries=RETRIES)(Explain)
    free = [actor.remote(recipe) for _ in range(workers)] * QUEUED
    at_work: dict[Any, tuple[Any, RowBatch]] = {}
    try:
        while True:
            while free and (batch := next(batches, None)) is not None:
                idle = free.pop(0)
                at_work[idle.explain.remote(batch.rows)] = idle, batch
            if not at_work:
                return
            (done,), _ = ray.wait(list(at_work))
            idle, batch = at_work.pop(done)
            free.append(idle)
            yield batch, ray.get(done)
    except PathlensError:
        raise
    except ray.exceptions.RayError as error:
        raise ModelError(
            f"the work on the Ray cluster failed ({_line(error)}); what is written stays: the same command goes on"
        ) from error


def _line(error: BaseException) -> str:
    """The last: a traceback of the worker stands before it."""
    return [type(error).__name__, *str(error).strip().splitlines()][-1][:300]
