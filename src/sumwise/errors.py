"""Every error that a user can cause is a `SumwiseError`; any other that escapes is a bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class SumwiseError(Exception):
    """Base class of all errors; the message says what is wrong, where, and what to do."""


class InvalidSetError(SumwiseError, ValueError):
    """The instances, weights or ids of a set cannot be used."""


class UnknownSetError(SumwiseError, KeyError):
    """No set has this id."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class SettingError(SumwiseError, ValueError):
    """An option has a value that cannot be used."""


class LabelError(SumwiseError, ValueError):
    """A measured total cannot be accepted."""


class PoolExhaustedError(SumwiseError):
    """Every set is measured already, so none is left to ask for."""


class NonFiniteScoreError(SumwiseError, ArithmeticError):
    """A strategy gave a set the score NaN or infinity."""


class DataError(SumwiseError):
    """A file or table is missing, damaged, or of the wrong kind."""


class StorageError(SumwiseError):
    """A database cannot be reached, read or written; nothing was stored in part."""


class MissingExtraError(SumwiseError, ImportError):
    """An optional package is not installed; the message names the extra to install."""


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Say which extra to install if a module is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{what} needs {error.name}, which is not installed. "
            f"Run: pip install 'sumwise[{extra}]'"
        ) from None
