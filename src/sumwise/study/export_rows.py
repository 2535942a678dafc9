"""What has happened in a study, to CSV files and back: answers, claims, skips and history.

People may edit them, so everything is checked and what does not fit is refused by its line. History
tells everything: what somebody has changed in answers.csv is added to it as events.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from sumwise.data.sets import Sets
from sumwise.errors import DataError
from sumwise.study import export_csv
from sumwise.study.export_csv import Line
from sumwise.study.storage.id_json import from_json

ANSWERS: Final = "answers.csv"
CLAIMS: Final = "claims.csv"
SKIPS: Final = "skips.csv"
HISTORY: Final = "history.csv"
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    ANSWERS: ("number", "set", "position", "total", "noise_std", "by", "at", "note"),
    CLAIMS: ("number", "set", "position", "by", "asked", "expires"),
    SKIPS: ("set", "position", "by", "at", "note"),
    HISTORY: (
        *("number", "at", "what", "set", "position"),
        *("total", "noise_std", "by", "note", "question"),
    ),
}
VALUED: Final = ("told", "amended", "retracted")  # events with a total
KINDS: Final = (
    *("created", "asked", *VALUED, "released", "renewed", "expired"),
    *("skipped", "unskipped"),
)
SAID: Final = ("y_bar", "noise_std", "by", "note")  # of an answer, and of its event

_TEXT: Final = (str,)
_NUMBER: Final = (int, float)
_QUESTION: Final[Mapping[str, tuple[type, ...]]] = {
    "score": _NUMBER,
    "expected": _NUMBER,
    "std": _NUMBER,
    "why": _TEXT,
    "information": _NUMBER,
    "runner_up_score": (*_NUMBER, type(None)),
    "number": (int,),
    "by": (*_TEXT, type(None)),
    "expires": _TEXT,
}

Row = dict[str, Any]  # of a table, without the study's number


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of four tables."""

    answers: Sequence[Row]  # in order of arrival
    claims: Sequence[Row]  # in order of asking
    skips: Sequence[Row]  # in order of the sets
    history: Sequence[Row]


def write(files: Mapping[str, IO[bytes]], rows: Rows, ids: Sequence[Hashable]) -> None:
    """Each file is given the rows of its table; history is numbered from 1."""
    for name, known in (
        (ANSWERS, ({**row, "number": row["arrival"]} for row in rows.answers)),
        (CLAIMS, rows.claims),
        (SKIPS, rows.skips),
        (HISTORY, ({**row, "number": n} for n, row in enumerate(rows.history, start=1))),
    ):
        named = (
            {
                **row,
                "set": None if row["position"] is None else ids[row["position"]],
                "total": row.get("y_bar"),
            }
            for row in known
        )
        export_csv.write(files[name], COLUMNS[name], named)


def read(contents: Mapping[str, bytes], sets: Sets, questions: int, moment: str) -> Rows:
    """What the four files say, if it fits together.

    Args:
        questions: Asked so far.
        moment: When changes that somebody made to the answers enter history.
    """
    history = [
        _event(line, number, sets) for number, line in enumerate(_lines(contents, HISTORY), start=1)
    ]
    found = _answers(contents, sets)
    taken = dict.fromkeys(found, f"answered in {ANSWERS}")
    claims = _claims(contents, sets, questions, taken)
    skips = _skips(contents, sets, taken)
    answers = [row for _, row in found.values()]
    return Rows(answers, claims, skips, history + _changed(history, found, moment))


def _lines(contents: Mapping[str, bytes], name: str) -> Any:
    return export_csv.read(contents[name], name, COLUMNS[name])


# --- answers and claims ---------------------------------------------------------------------------


def _answers(contents: Mapping[str, bytes], sets: Sets) -> dict[int, tuple[Line, Row]]:
    """Answers by position, in order of arrival."""
    found: dict[int, tuple[Line, Row]] = {}
    last = -1
    for line in _lines(contents, ANSWERS):
        number, position = line.whole("number"), line.position(sets)
        if position in found:
            raise line.refusal(
                f"set {line.cells['set']!r:.80} is answered in line {found[position][0].number} "
                "already; keep one of the two"
            )
        if number <= last:
            raise line.refusal(f"number is {number}, after {last}; numbers must rise")
        last = number
        row = {
            "arrival": number,
            "position": position,
            "y_bar": line.total(),
            "noise_std": line.noise(),
            "by": line.text("by"),
            "at": line.time("at"),
            "note": line.text("note"),
        }
        found[position] = (line, row)
    return found


def _claims(
    contents: Mapping[str, bytes], sets: Sets, questions: int, taken: dict[int, str]
) -> list[Row]:
    claims: list[Row] = []
    numbers: set[int] = set()
    for line in _lines(contents, CLAIMS):
        number, position = line.whole("number"), _untaken(line, sets, taken)
        if number >= questions or number in numbers:
            raise line.refusal(
                f"number is {number}; {questions} questions were asked, numbered from 0, and each "
                "number is there once"
            )
        numbers.add(number)
        times = {"asked": line.time("asked"), "expires": line.time("expires")}
        claims.append({"position": position, "number": number, "by": line.text("by"), **times})
    return claims


def _skips(contents: Mapping[str, bytes], sets: Sets, taken: dict[int, str]) -> list[Row]:
    return [
        {
            "position": _untaken(line, sets, taken),
            "by": line.text("by"),
            "at": line.time("at"),
            "note": line.text("note"),
        }
        for line in _lines(contents, SKIPS)
    ]


def _untaken(line: Line, sets: Sets, taken: dict[int, str]) -> int:
    """The position of a set that is named here for the first time."""
    position = line.position(sets)
    if position in taken:
        said = f"set {line.cells['set']!r:.80} is {taken[position]} already"
        raise line.refusal(f"{said}; delete this line")
    taken[position] = f"in line {line.number} of {line.file}"
    return position


# --- history --------------------------------------------------------------------------------------


def _event(line: Line, number: int, sets: Sets) -> Row:
    what = line.cells["what"]
    if line.whole("number") != number:
        raise line.refusal(f"number is {line.cells['number']}, where {number} belongs")
    if what not in KINDS:
        raise line.refusal(f"what is {what!r:.60}; it must be one of {', '.join(KINDS)}")
    empty = ["set", "position"] if what == "created" else []
    empty += ["total", "noise_std"] if what not in VALUED else []
    for name in empty + (["question"] if what != "asked" else []):
        if line.cells[name]:
            raise line.refusal(f"{name} must be empty where what is {what!r}")
    return {
        "at": line.time("at"),
        "what": what,
        "position": None if what == "created" else line.position(sets),
        "y_bar": line.total() if what in VALUED else None,
        "noise_std": line.noise(),
        "by": line.text("by"),
        "note": line.text("note"),
        "question": _question(line, sets) if what == "asked" else None,
    }


def _question(line: Line, sets: Sets) -> str:
    """What was asked, to the letter."""
    text, set_id = line.cells["question"], sets.ids[line.position(sets)]
    try:
        known = json.loads(text)
        runner_up = from_json(known["runner_up"])
        fits = from_json(known["set_id"]) == set_id and (runner_up is None or runner_up in sets)
        fits = fits and all(isinstance(known[name], kind) for name, kind in _QUESTION.items())
    except (ValueError, TypeError, KeyError, RecursionError, DataError):
        fits = False
    if not fits or not text.isascii():
        raise line.refusal(f"question is {text!r:.60}, which is none that was asked for this set")
    return text


def _changed(
    history: Sequence[Row], found: Mapping[int, tuple[Line, Row]], moment: str
) -> list[Row]:
    """Events for answers that are not as history has left them."""
    told: dict[int, Row] = {}
    for event in history:
        if event["what"] == "retracted":
            told.pop(event["position"], None)
        elif event["what"] in VALUED:
            told[event["position"]] = event
    order = [*(at for at in told if at in found), *(at for at in found if at not in told)]
    for at, (position, (line, _)) in zip(order, found.items(), strict=True):
        if at != position:
            raise line.refusal(
                f"answers come in the order in which {HISTORY} has them told, new ones last, and "
                f"set {line.cells['set']!r:.80} is out of order"
            )
    new = {"at": moment, "question": None}
    events = [
        {**told[at], **new, "what": "retracted", "by": None, "note": f"not in {ANSWERS} any more"}
        for at in told
        if at not in found
    ]
    for at, (_, row) in found.items():
        if at not in told or any(row[name] != told[at][name] for name in SAID):
            said = {name: row[name] for name in SAID}
            what = "amended" if at in told else "told"
            events.append({**said, **new, "what": what, "position": at})
    return events
