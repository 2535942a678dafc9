"""What commands share that may run on a Dask cluster; Dask is loaded when an address is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import rich_click as click

dask_option: Final = click.option(
    "--dask",
    metavar="ADDRESS",
    help="Work on the cluster of this Dask scheduler, such as tcp://host:8786. Its workers must "
    "see the same files.",
)


@contextmanager
def runs_on(address: str | None, jobs: int) -> Iterator[int]:
    """How many runs there are at the same time, here or on the workers of a scheduler."""
    if address is None:
        yield jobs
        return
    from sumwise.distributed import runs_on

    with runs_on(address, jobs) as threads:
        yield threads
