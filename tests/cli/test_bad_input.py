"""Tables and answers as they go wrong: the page on bad input says what is said, word for word."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "bad-input.md"
ROWS = [["north", "east", "south"][n % 3] + f",p{n},{n * n / 4:.2f},{7 - n % 5}" for n in range(12)]
GOOD = "\n".join(["set,id,size,age", *ROWS, ""])
POINT = {"type": "Point", "coordinates": [1, 2]}
EMPTY = {"type": "Polygon", "coordinates": []}
DAYS = ["2024-03-30", "2024-03-31", "31.3.2024", "2024-04-01"] * 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def column(name, cells):
    """The good table with one column more."""
    lines = GOOD.splitlines()
    return "\n".join(f"{line},{cell}" for line, cell in zip(lines, [name, *cells], strict=True))


def changed(old, new, table=GOOD):
    assert old in table
    return table.replace(old, new, 1)


def sheet(*rows, merged=()):
    def write(path):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for cells in merged:
            book.active.merge_cells(cells)
        book.save(path)

    return write


def places(shapes):
    features = [
        {"type": "Feature", "properties": {"set": "ab"[n % 2], "size": n * n}, "geometry": shape}
        for n, shape in enumerate(shapes)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features})


CSV, TOTALS, IDS = "table.csv", "totals.csv", "ids.csv"
INIT = ("init", "new.db", CSV, "--by", "set", "--id", "id")
BOOK = ("init", "new.db", "table.xlsx", "--by", "set")
GEO = ("init", "new.db", "table.geojson", "--by", "set", "--centroid")
TELL = ("tell", "study.db", "--from", TOTALS)
KINDS = {
    "counts.db": ("--outputs", "counts", "--exposure", "age"),
    "shares.db": ("--outputs", "shares", "--trials", "age"),
    "amounts.db": ("--outputs", "amounts"),
}
ALL = {"north": 31.5, "east": 41.5, "south": 53.5}  # totals of size
SHEET = [["set", "size"], ["a", 1.5], ["b", 2.5], ["a", 3.5]]

TABLES = {
    "a line with a cell too many": (changed("p1,0.25", "p1,0,25"), INIT),
    "a quotation mark that is not closed": (changed("p2,1.00", 'p2,"1.00'), INIT),
    "two ways of writing decimals": (
        "set;id;size\n" + "".join(f"a;p{n};{n}{'.,'[n % 2]}5\n" for n in range(6)), INIT),
    "a German number in an English file": (changed("p2,1.00", 'p2,"1.234,5"'), INIT),
    "text among numbers": (changed("p2,1.00", "p2,about 1"), INIT),
    "numbers in per cent": (column("share", [f"{n * n}%" for n in range(12)]), INIT),
    "an infinite number": (changed("p2,1.00", "p2,inf"), INIT),
    "two rows with one id": (changed("p3", "p0"), INIT),
    "a set without a name": (changed("south,p2", ",p2"), INIT),
    "a set whose name is blank": (changed("south,p2", " ,p2"), INIT),
    "a duplicate column": (changed("size,age", "size,size"), INIT),
    "a column without a name": (changed("size,age", "size,"), INIT),
    "an empty file": ("", INIT),
    "a heading and no rows": ("set,id,size\n", INIT),
    "a file that is not text": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)), INIT),
    "a zero byte": (changed("p2,1.00", "p2,1\0"), INIT),
    "a wrong encoding": (
        GOOD.replace("south", "süd").encode("latin-1"), (*INIT, "--encoding", "utf-8")),
    "UTF-8 declared as Latin-1": (
        GOOD.replace("south", "süd").encode(), (*INIT, "--encoding", "latin-1")),
    "two encodings": (
        GOOD.replace("south", "süd").encode("latin-1") + "süd,p13,1,2\n".encode(), INIT),
    "a constant column": (column("year", ["2024"] * 12), INIT),
    "a constant column that was requested": (
        column("year", ["2024"] * 12), (*INIT, "--x", "size,year")),
    "a column without values": (column("note", [""] * 12), INIT),
    "a column without values that was requested": (
        column("note", [""] * 12), (*INIT, "--x", "size,note")),
    "dates written in two ways": (column("day", DAYS), INIT),
    "such dates in a requested column": (column("day", DAYS), (*INIT, "--x", "size,day")),
    "a date that does not exist": (
        column("day", ["2024-03-30", "2024-03-31", "2024-13-45", "2024-04-01"] * 3), INIT),
    "26 indicators": (
        "set,id," + ",".join(f"kind_{c}" for c in LETTERS) + "\n"
        + "".join(f"s{n % 3},p{n}," + ",".join(str(int(n == m)) for m in range(26)) + "\n"
                  for n in range(26)), INIT),
    "a pattern that matches nothing": (GOOD, (*INIT, "--x", "ses_*")),
    "the outcome as an input": (GOOD, (*INIT, "--outcome", "age")),
    "a heading over several columns": (
        sheet(["set", "results", None], ["", "size", "age"], ["a", 1, 2], merged=["B1:C1"]), BOOK),
    "a formula without its result": (sheet(*SHEET, ["b", "=B2*2"]), BOOK),
    "an error of Excel": (sheet(*SHEET, ["b", "#DIV/0!"]), BOOK),
    "an empty geometry": (places([POINT, EMPTY, POINT, POINT]), GEO),
    "an invalid geometry": (
        places([POINT, {"type": "Blob", "coordinates": []}]), GEO),
    "a total that is not a number": ("set,total\nnorth,3\neast,NaN\n", TELL),
    "a total that is missing": ("set,total\nnorth,3\neast,\n", TELL),
    "a set that does not exist": ("set,total\nnorth,3\nwest,2\n", TELL),
    "a set with two totals": ("set,total\nnorth,3\nnorth,2\n", TELL),
    "an impossible total": ("set,total\nnorth,3\neast,500\n", TELL),
    "totals of an input": (
        "set,total\n" + "".join(f"{name},{total}\n" for name, total in ALL.items()), TELL),
    "members of another set": (
        "id\np0\np1\n", ("tell", "study.db", "north", "3", "--of", IDS)),
    "a population of 0": (GOOD, (*INIT, "--outputs", "counts", "--exposure", "size")),
    "a part of a trial": (
        changed("p1,0.25,6", "p1,0.25,6.5"), (*INIT, "--outputs", "shares", "--trials", "age")),
    "means of counts": (GOOD, (*INIT, "--outputs", "counts", "--weights", "mean")),
    "bounds of counts": (GOOD, (*INIT, "--outputs", "counts", "--max", "9")),
    "a rate told as a count": ("set,total\nnorth,3\neast,0.25\n", ("tell", "counts.db", *TELL[2:])),
    "a negative count": ("set,total\nnorth,-3\n", ("tell", "counts.db", *TELL[2:])),
    "more successes than trials": (
        "set,total\nnorth,3\neast,300\n", ("tell", "shares.db", *TELL[2:])),
    "an amount of 0": ("set,total\nnorth,0\n", ("tell", "amounts.db", *TELL[2:])),
    "a count of a share of a set": (
        "set,total,covers\nnorth,3,0.5\n", ("tell", "counts.db", *TELL[2:])),
    "a count with known noise": (
        "set,total,noise_std\nnorth,3,1\n", ("tell", "counts.db", *TELL[2:])),
    "text where numbers were": ("size,age\n1,2\n2,old\n", ("predict", "study.db", CSV)),
    "no column for an input": ("size,years\n1,2\n", ("predict", "study.db", CSV)),
}  # fmt: skip
POOLS = {
    "an unknown rule for pools": {"uses": 1, "sites": "set"},
    "sizes of pools in the wrong order": {"size": (5, 2)},
    "a missing column of households": {"apart": "household"},
    "labels of some candidates only": {"apart": ["Ann", "Bo"]},
    "pools too large for the rule apart": {"size": (4, 6), "apart": "set"},
    "larger pools than plates have samples": {"size": (5, 6), "within": "set"},
    "more strata than members": {"size": (1, 2), "strata": "set"},
    "groups too large for the rule together": {"size": (1, 3), "together": "set"},
    "areas without common borders": {"size": (3, 6), "neighbours": [("p0", "p1"), ("p2", "p3")]},
    "a neighbour with an unknown id": {"neighbours": [("p0", "p99")]},
    "an invalid range of weights": {"weights": (1, 1)},
    "samples that are used up": {"n": 4, "size": 4, "uses": 1},
    "a budget without costs": {"budget": 30},
    "a budget below the cost of a pool": {"budget": 30, "cost": 40},
    "a strategy that cannot design pools": {"strategy": "MaxN"},
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    basis = ("--basis", "linear") if words[0] == "init" else ()
    environment = {"COLUMNS": "1000", "SUMWISE_USER": None}
    return CliRunner(env=environment).invoke(main, [*words, *basis])


def answer(content, words):
    """What is said about a file that a command reads, and whether it is refused."""
    if words[1] != "new.db":
        Path("good.csv").write_text(GOOD)
        kind = KINDS.get(words[1], ("--max", "100"))
        made = run("init", words[1], "good.csv", "--by", "set", "--id", "id", *kind)
        assert made.exit_code == 0, made.output
    file = next(word for word in words if Path(word).suffix in (".csv", ".xlsx", ".geojson"))
    if callable(content):
        content(file)
    else:
        Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = run(*words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    lines = [line.strip(" │") for line in result.stderr.splitlines()]
    said = " ".join(line for line in lines if line and line[0] not in "╭╰")
    if result.exit_code == 0:
        told = re.sub(r"Sets by .*?\. ?|Next.*", "", said).strip()
        assert told, "it passed in silence"
        return told
    assert result.exit_code == 1, result.output
    assert not Path("new.db").exists()
    return f"**Refused.** {re.sub(r'.*: read with .*?[.] ', '', said)}"


def of_pools(options):
    """What is said of options of `sw.design_pools`."""
    people = pd.read_csv(StringIO(GOOD))
    sets = sw.Sets.from_frame(people, by="id", x=["size", "age"], id="id")
    model = sw.AggregateRegressor("linear").fit(sets[:0], [], pool=sets)
    candidates = sets if "neighbours" in options else people
    with pytest.raises(sw.SumwiseError) as refused:
        sw.design_pools(candidates, model, **options)
    return f"**Refused.** {refused.value}"


def row(name, said):
    return f"| {name} | {said.replace('|', chr(92) + '|')} |"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.usefixtures("place")
def test_what_is_said_of_bad_input_is_what_the_page_says(name):
    assert row(name, answer(*TABLES[name])) in PAGE.read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", POOLS)
def test_what_is_said_of_pools_that_cannot_be_is_what_the_page_says(name):
    assert row(name, of_pools(POOLS[name])) in PAGE.read_text("utf-8").splitlines()


def test_the_page_lists_nothing_else():
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0][2:] for line in rows[1:]] == [*TABLES, *POOLS]
