"""Refusals as JSON: `{code, detail}`, where `detail` is for people and `code` for programs.

No request is answered with 500 or above, except 503 while the database cannot be used; 500 would be
a bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sumwise import errors
from sumwise.errors import SumwiseError
from sumwise.web import responses

Responses = dict[int | str, dict[str, Any]]


class Refused(SumwiseError):
    """A refusal with its own status, and with more fields than words if need be."""

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.more = status, code, more


STATUSES: Final[Mapping[type[SumwiseError], tuple[int, str]]] = {
    errors.UnknownSetError: (404, "unknown_set"),
    errors.PoolExhaustedError: (409, "exhausted"),
    errors.LabelError: (422, "total"),
    errors.SettingError: (422, "setting"),
    errors.StorageError: (503, "storage"),
    errors.DataError: (503, "data"),
    errors.MissingExtraError: (503, "missing_extra"),
}
OTHERWISE: Final = (409, "refused")  # a conflict with the state of the study


@contextmanager
def conflicts(codes: Mapping[type[SumwiseError], str]) -> Iterator[None]:
    """Turn these errors into conflicts (409) with their codes."""
    try:
        yield
    except tuple(codes) as error:
        raise Refused(409, codes[type(error)], str(error)) from error


# --- documentation --------------------------------------------------------------------------------

MEANINGS: Final = {
    400: "The request is not valid HTTP or JSON, or is meant for another host.",
    401: "The token is missing or wrong.",
    403: "The request was caused by another site, or the token does not allow this.",
    404: "There is no such set.",
    408: "The body did not come in time, and nothing was stored.",
    409: "It conflicts with the present state: `detail` says how, and what to do.",
    413: "The body is larger than 64 kB; that of a table of individuals, than 4 MB.",
    422: "A value cannot be used: `detail` says which, and what to give.",
    503: "The database is not available now, and nothing was stored.",
}
READING: Final = (400, 401, 403, 413, 422, 503)  # of any request
WRITING: Final = (*READING, 408, 409)


def documented(*statuses: int) -> Responses:
    """The refusals of a route, for the OpenAPI document."""
    return {
        status: {"model": responses.Problem, "description": MEANINGS[status]}
        for status in sorted(set(statuses))
    }


# --- handlers -------------------------------------------------------------------------------------


def problem(status: int, code: str, detail: str, **more: Any) -> JSONResponse:
    return JSONResponse({"code": code, "detail": detail, **more}, status)


async def _refused(_: Request, error: Any) -> JSONResponse:
    if isinstance(error, Refused):
        return problem(error.status, error.code, str(error), **error.more)
    found = (STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    return problem(*next(found, OTHERWISE), str(error))


async def _invalid(_: Request, error: Any) -> JSONResponse:
    found = [each for each in error.errors() if each["type"] != "none_required"]
    if any(each["type"] == "json_invalid" for each in found):
        return problem(400, "not_json", NOT_JSON)
    return problem(422, "invalid", "; ".join(_complaint(each) for each in found[:5]))


def _complaint(error: Mapping[str, Any]) -> str:
    place = error["loc"][1:2]  # the rest names internal types
    name = str(place[0])[:80] if place else "the body"
    kind = "model_attributes_type" if error["type"] == "missing" and not place else error["type"]
    text = WORDS.get(kind)  # null is a missing body, in some versions of FastAPI
    if text is None:
        return f"{name}: {str(error['msg']).removeprefix('Value error, ')}"
    return f"{name}: {text.format(**error.get('ctx', {}))}"


NOT_JSON: Final = "the body is not JSON that can be read"
WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "float_type": "give a number, without quotation marks and with a point for decimals",
    "finite_number": "give a finite number",
    "less_than_equal": "give a number up to {le:g}",
    "greater_than_equal": "give a number from {ge:g} on",
    "greater_than": "give a number above {gt:g}",
    "int_type": "give a whole number, without quotation marks",
    "bool_type": "give true or false",
    "string_type": "give text",
    "string_too_short": "give some text",
    "string_too_long": "give up to {max_length} characters",
    "literal_error": "give {expected}",
    "string_unicode": "give valid Unicode",
    "string_pattern_mismatch": "give text without null characters",
    "model_attributes_type": "give a JSON object, and say Content-Type: application/json",
}


async def _http(request: Request, error: Any) -> JSONResponse:
    known = {
        400: ("not_json", NOT_JSON),  # nothing else is refused like that
        404: ("not_found", f"there is nothing at {request.url.path[:200]}"),
        405: ("method", f"{request.method[:20]} is not allowed here"),
    }
    words = known.get(error.status_code, ("refused", str(error.detail)))
    answer = problem(error.status_code, *words)
    answer.headers.update(error.headers or {})
    return answer


HANDLERS: Final[dict[int | type[Exception], Any]] = {
    SumwiseError: _refused,
    RequestValidationError: _invalid,
    HTTPException: _http,
}
