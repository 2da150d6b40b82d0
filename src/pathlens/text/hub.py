"""Can a model or data hub be asked at all?"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies


def hub_has_an_address() -> bool:
    """Without one only the cache is asked: nobody should wait for half a minute of retries on a train."""
    from huggingface_hub import constants

    if getproxies():  # then the proxy looks names up
        return True
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        return False
    return True


@contextmanager
def cache_alone_without_hub() -> Iterator[None]:
    """While a data set is loaded: where the hub has no address, its libraries are told to be off line."""
    import datasets
    from huggingface_hub import constants

    places = [constants, datasets.config]
    before = [place.HF_HUB_OFFLINE for place in places]
    try:
        if not hub_has_an_address():
            for place in places:
                place.HF_HUB_OFFLINE = True
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value
