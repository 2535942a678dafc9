"""CSV as offices write it, and Excel: the same table in every dialect, or a refusal in words."""

from __future__ import annotations

import builtins
import contextlib
import csv
import datetime
import io
import tempfile
import zipfile
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sumwise.data.dialect import Reading
from sumwise.data.individuals import read_individuals
from sumwise.data.sets import Sets
from sumwise.data.tables import read_table
from sumwise.data.totals import number, read_totals
from sumwise.errors import DataError, LabelError, MissingExtraError, SettingError


def nothing(name):
    return False


def read(path, text=nothing, **given):
    said = []
    table = read_table(path, text, Reading(**given, say=said.append))
    return table, said


def columns_of(table):
    return table.frame.to_dict(as_series=False)


def write(folder, content, name="d.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


# --- what is found --------------------------------------------------------------------------------

GERMAN = "Ort;Straße;Größe;Anteil\nMünchen;Weg 1;12,5;0,25\nKöln;Weg 2;1013,125;1\n"
EXPECTED = {
    "Ort": ["München", "Köln"],
    "Straße": ["Weg 1", "Weg 2"],
    "Größe": [12.5, 1013.125],
    "Anteil": [0.25, 1.0],
}


@pytest.mark.parametrize(
    ("content", "encoding", "said"),
    [
        (GERMAN, "latin-1", "; between columns, decimal commas, Latin-1"),
        (GERMAN.replace("Weg", "Weg –"), "cp1252", "; between columns, decimal commas, Windows"),
        (GERMAN, "utf-8", "; between columns, decimal commas"),
        (GERMAN, "utf-8-sig", "; between columns, decimal commas"),
        (GERMAN, "utf-16", "; between columns, decimal commas, UTF-16"),
        (GERMAN, "utf-16-le", "; between columns, decimal commas, UTF-16-LE"),
        (GERMAN, "utf-16-be", "; between columns, decimal commas, UTF-16-BE"),
        (GERMAN.replace(";", "\t"), "utf-8", "tabs between columns, decimal commas"),
        (GERMAN.replace(",", ".").replace(";", "|"), "utf-8", "| between columns"),
        (GERMAN.replace(",", ".").replace(";", ","), "utf-8-sig", None),
        (GERMAN.replace(",", ".").replace(";", ","), "latin-1", "Latin-1"),
        (GERMAN.replace("\n", "\r\n"), "latin-1", "; between columns, decimal commas, Latin-1"),
    ],
)
def test_a_table_is_the_same_in_every_dialect_and_what_is_unusual_is_said(
    tmp_path, content, encoding, said
):
    table, words = read(write(tmp_path, content, encoding=encoding))
    found = columns_of(table)
    found["Straße"] = [street.replace("– ", "") for street in found["Straße"]]
    assert found == EXPECTED
    assert len(words) == (said is not None)
    assert said is None or words[0].startswith(f"d.csv: read with {said}")


def test_one_odd_letter_in_the_last_of_many_rows_is_found(tmp_path):
    rows = "".join(f"a{n},{n}\n" for n in range(30_000))
    table, said = read(write(tmp_path, f"name,x\n{rows}Zürich,1\n", encoding="latin-1"))
    assert columns_of(table)["name"][-1] == "Zürich"
    assert said == ["d.csv: read with Latin-1."]


def test_quotes_hide_separators_and_newlines_and_lines_are_counted_as_an_editor_does(tmp_path):
    path = write(tmp_path, 'a;b\n"x;\ny;";1,5\n\n"z ""w""";2,5\n', encoding="utf-16")
    table, _ = read(path)
    assert columns_of(table) == {"a": ["x;\ny;", 'z "w"'], "b": [1.5, 2.5]}
    assert table.where(1) == f"{path}, line 5"


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        ({5: 's1,5.5,"k'}, "line 6: the quotation mark in .* is not closed"),
        ({5: 's1,"k,5.5', 9: 's1,"k,9.5'}, r"line 6: .* has text after the one that closes it\."),
        ({5: 's1,5.5,"k', 9: 's1,9.5,k"'}, "line 6: .* closes 4 lines later, and each of these"),
        ({5: 's1,"k,5.5', 6: 's1,k",6.5'}, "line 6: .* closes 1 lines later, and each of these"),
        ({1: 's"1,"k,5.5'}, "line 2: .* is not closed"),
        ({12: 's1,12.5,"k'}, "line 13: .* is not closed"),
        ({5: 's1,5.5,"k"x'}, "line 6: .* has text after"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_quotes_that_would_swallow_rows_are_refused(tmp_path, cells, line, encoding):
    rows = [cells.get(n, f"s1,{n}.5,k") for n in range(1, 13)]
    path = write(tmp_path, "\n".join(["set,v,kind", *rows, ""]), encoding=encoding)
    with pytest.raises(DataError, match=f"(?s){line}"):
        read(path, sep=",")


@given(cells=st.lists(st.text('ab"\n,;5', max_size=6), min_size=1, max_size=20))
def test_cells_that_were_written_in_quotes_are_read_as_they_are_or_refused(cells):
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([["a", "b", "c"], *(["x", f"k{each}", "y"] for each in cells)])
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), file.getvalue())
        if any("\n" in each and "," in each for each in cells):
            with contextlib.suppress(DataError):
                assert columns_of(read(path, sep=",")[0])["b"] == [f"k{each}" for each in cells]
        else:
            assert columns_of(read(path, sep=",")[0])["b"] == [f"k{each}" for each in cells]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_the_line_with_which_excel_names_the_separator_is_understood(tmp_path, encoding):
    path = write(tmp_path, "sep=;\r\nid;é,b\r\n007;1,5\r\n8;2,5\r\n", encoding=encoding)
    table, _ = read(path, text=lambda name: name == "id")
    assert columns_of(table) == {"id": ["007", "8"], "é,b": [1.5, 2.5]}
    assert table.where(0) == f"{path}, line 3"
    bad = write(tmp_path, "sep=;\na;b\n1;2\n1;2;3\n", encoding=encoding)
    with pytest.raises(DataError, match="line 4: there are 3 cells and the heading has 2"):
        read(bad)


def test_what_is_given_is_used_and_not_said(tmp_path):
    path = write(tmp_path, "a:b\n1,234:é\n", encoding="cp850")
    table, said = read(path, sep=":", decimal=",", encoding="cp850")
    assert columns_of(table) == {"a": [1.234], "b": ["é"]}
    assert said == []


def test_ids_with_commas_and_points_stay_text(tmp_path):
    table, said = read(write(tmp_path, "id;x\n1,5;2\n007;3\n"), text=lambda name: name == "id")
    assert columns_of(table) == {"id": ["1,5", "007"], "x": [2, 3]}
    assert said == ["d.csv: read with ; between columns."]
    assert not table.unclear


def test_german_dates_and_other_text_are_not_taken_for_numbers(tmp_path):
    table, _ = read(write(tmp_path, "a;b\n01.02.2020;1.1.1\n11.12.2021;2.3.4\n"))
    assert not table.unclear
    assert columns_of(table)["a"] == ["01.02.2020", "11.12.2021"]


def test_gaps_are_gaps_in_every_dialect(tmp_path):
    table, _ = read(write(tmp_path, "a;b\n1,5;x\nNA;y\n;z\n"))
    assert columns_of(table)["a"] == [1.5, None, None]


def test_quoted_decimal_commas_between_commas_are_numbers(tmp_path):
    table, said = read(write(tmp_path, 'a,b\n"1,5",x\n"22,75",y\n'))
    assert columns_of(table)["a"] == [1.5, 22.75]
    assert said == ["d.csv: read with decimal commas."]


# --- any table in any dialect ---------------------------------------------------------------------

CELL = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"))
NAME = CELL.map(lambda text: f"n{text}")


@given(
    rows=st.lists(
        st.tuples(
            NAME,
            st.floats(-1e6, 1e6).map(lambda value: round(value, 4)),
            st.integers(-(10**9), 10**9),
        ),
        min_size=1,
        max_size=8,
    ),
    sep=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-be"]),
    order=st.permutations(range(3)),
    end=st.sampled_from(["\n", "\r\n"]),
    tell=st.booleans(),
)
def test_a_table_written_in_any_dialect_is_read_as_it_was(
    rows, sep, decimal, encoding, order, end, tell
):
    rows = [("nmark é", 0.5, 1), *rows]  # what tells dialects apart
    if encoding == "cp1252":  # C1 controls have no place there
        rows = [(name.encode("cp1252", "ignore").decode("cp1252"), *rest) for name, *rest in rows]
    if encoding in ("latin-1", "cp1252"):  # looks like UTF-8: refused, which has a test of its own
        rows = [(name.replace("Â", "A").replace("Ã", "A"), *rest) for name, *rest in rows]
    if encoding == "latin-1":  # as is said, C1 controls are those of Windows
        rows = [
            ("".join(c for c in name if not "\x80" <= c < "\xa0"), *rest) for name, *rest in rows
        ]
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=sep, lineterminator=end)
    names = ("name", "real", "whole")
    writer.writerow([names[d] for d in order])
    for row in rows:
        cells = (row[0], f"{row[1]:.4f}".replace(".", decimal), row[2])
        writer.writerow([cells[d] for d in order])
    given = {"sep": sep, "decimal": decimal, "encoding": encoding} if tell else {}
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), file.getvalue(), encoding=encoding)
        table, _ = read(path, text=lambda name: name == "name", **given)
    assert table.frame.columns == [names[d] for d in order]
    assert columns_of(table) == dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    assert not table.unclear


def test_the_order_of_rows_and_columns_changes_no_set(tmp_path):
    one = write(tmp_path, "g;a;b\nx;1,5;2\ny;0,5;4\nx;3,5;6\n", "1.csv")
    two = write(tmp_path, "b,g,a\n4,y,0.5\n2,x,1.5\n6,x,3.5\n", "2.csv")
    sets = [read_individuals(path, ["g"], ["a", "b"]).sets for path in (one, two)]
    for name in ("x", "y"):
        assert sets[0][[name]].x.tolist() == sets[1][[name]].x.tolist()


# --- a page of bad input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "g;a\nx;1,234\ny;2,345\n",
            r"line 2: 'a' is '1,234', which may be 1234 or 1\.234\. .*--d",
        ),
        ("g;a\nx;7\ny;2.345\n", r"line 3: 'a' is '2\.345', which may be 2345 or 2\.345\..*--decim"),
        ("g;a\nx;12.000\ny;7\n", r"line 2: 'a' is '12\.000', which may be 12000 or"),
        ("g\ta\nx\t1,234\n", r"line 2: 'a' is '1,234', which may be 1234 or 1\.234"),
        ('g,a\nx,"1,234"\n', r"line 2: 'a' is '1,234', which may be 1234 or 1\.234"),
        ('g,a\nx,"1,234"\nx,"1,234.5"\n', r"line 2: 'a' is '1,234'.* Write 1234 or 1\.234, which"),
        ('g,a\nx,5\nx,"1,234.5"\n', r"line 3: 'a' is '1,234\.5'.*decimal points.* Write 1234\.5\."),
        ('g,a\nx,"1,234,567"\n', r"line 2: 'a' is '1,234,567'.* Write 1234567\."),
        ("g;a\nx;0,5\ny;1.234,5\n", r"line 3: 'a' is '1\.234,5'.*decimal commas.* Write 1234,5\."),
        ("g;a\nx;0,5\ny;1.234.567\n", r"line 3: 'a' is '1\.234\.567'.* Write 1234567\."),
        ("g;a\nx;0,5\ny;1.5\n", r"line 2: 'a' is '0,5'.*decimal points.* Write 0\.5\."),
        ("g;a;b\nx;0,5;1.5\n", r"line 2: 'a' is '0,5'.*decimal points.* Write 0\.5\."),
        ("g;a\nx;1 234,5\n", r"line 2: 'a' is '1 234,5'.* Write 1234,5\."),
        ("g;a\nx;-1\N{NARROW NO-BREAK SPACE}234\n", r"line 2: 'a' is .* Write -1234\."),
        ("g;a\nx;1'234.5\n", r"line 2: 'a' is .*1'234\.5.* Write 1234\.5\."),
        ("g;a\nx;1;2\n", "line 2: there are 3 cells and the heading has 2.*separated by ;"),
        ("g,a;b\nx,1;2\n", "may be separated by , or ;. Say which with --sep"),
        (b"g,a\nx,1\n\xfc,2\nM\xc3\xbcnchen,3\n", r"line 3: .*xfc.* is not UTF-8, and other lines"),
        (b"g,a\n\x81,1\n", r"line 2: .*x81.* is neither UTF-8 nor Windows-1252.*--encoding"),
        (b"g;g\nx;1\n", "two columns called 'g'"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused_with_its_place_and_what_to_do(
    tmp_path, content, words
):
    with pytest.raises(DataError, match=f"(?s){words}"):
        read_individuals(write(tmp_path, content), ["g"], [])


def test_a_column_of_unclear_numbers_matters_only_where_it_is_used(tmp_path):
    path = write(tmp_path, 'g,a,people\nx,1,"1,234"\ny,2,"5,678"\n')
    assert read_individuals(path, ["g"], ["a"]).x == ("a",)
    assert read_individuals(path, ["g"], [], without=["people"]).x == ("a",)
    with pytest.raises(DataError, match="'people' is '1,234'"):
        read_individuals(path, ["g"], ["a"], weights="people")


def test_doubt_is_resolved_by_the_rest_of_the_file_or_by_the_user(tmp_path):
    path = write(tmp_path, "g;a;b\nx;1,234;0,5\n")
    assert columns_of(read(path)[0])["a"] == [1.234]
    alone = write(tmp_path, "g;a\nx;1,234\n")
    assert columns_of(read(alone, decimal=",")[0])["a"] == [1.234]
    with pytest.raises(DataError, match="decimal points and without marks for thousands"):
        read_individuals(alone, ["g"], [], reading=Reading(decimal="."))
    points = write(tmp_path, "g;a\nx;1.234\n")
    assert columns_of(read(points, decimal=".")[0])["a"] == [1.234]


@pytest.mark.parametrize(
    "given", [{"sep": ";;"}, {"sep": "a"}, {"sep": '"'}, {"decimal": ";"}, {"encoding": "klingon"}]
)
def test_options_that_mean_nothing_are_refused(given):
    with pytest.raises(SettingError, match=f"--{next(iter(given))} is"):
        Reading(**given)


def test_a_file_that_is_not_in_the_given_encoding_is_refused_with_the_line(tmp_path):
    path = write(tmp_path, "g,a\nx,1\nKöln,2\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"line 3: .*xf6.* is not utf-8"):
        read(path, encoding="utf-8")


# --- totals ---------------------------------------------------------------------------------------


def named(*ids):
    return Sets.from_arrays([[[1.0]]] * len(ids), ids=ids)


def test_totals_with_decimal_commas_are_understood(tmp_path):
    path = write(tmp_path, "set;total;noise_std\nKöln;1234,5;0,5\nBonn;7;\n", encoding="latin-1")
    told, ignored = read_totals(path, named("Köln", "Bonn"), "ann")
    assert told["set_ids"] == ["Köln", "Bonn"]
    assert told["y_bar"] == [1234.5, 7.0]
    assert told["noise_std"] == [0.5, None]
    assert not ignored


def test_totals_that_may_be_thousands_are_refused(tmp_path):
    path = write(tmp_path, "set;total\nKöln;1.234\n")
    with pytest.raises(DataError, match=r"line 2: 'total' is '1\.234', which may be 1234 or"):
        read_totals(path, named("Köln"), None)
    with pytest.raises(LabelError, match="with a comma for decimals"):
        number("12.5", decimal=",")


# --- Excel ----------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Daten"
    sheet.append([])
    sheet.append(["Ort", "Größe", "n", "Tag", "ja", "Code", 2020])
    sheet.append(["Köln", 1.5, 7, datetime.date(2020, 1, 2), True, 7, 1])
    sheet.append([])
    sheet.append(["Bonn", None, 8, datetime.datetime(2020, 1, 3, 12), False, "x7", 2])
    book.create_sheet("Mehr").append(["a", "b"])
    book["Mehr"].append(["1,5", "x"])
    path = tmp_path / "d.xlsx"
    book.save(path)
    return path


def test_a_sheet_is_a_table(workbook):
    table, said = read(workbook, text=lambda name: name == "n")
    found = columns_of(table)
    assert found["Ort"] == ["Köln", "Bonn"]
    assert found["Größe"] == [1.5, None]
    assert found["n"] == ["7", "8"]
    assert found["Tag"][1] == datetime.datetime(2020, 1, 3, 12)
    assert found["ja"] == [True, False]
    assert found["Code"] == ["7", "x7"]
    assert found["2020"] == [1, 2]
    assert table.where(1) == f"{workbook}, row 5"  # as Excel counts
    assert said == ["d.xlsx: read with the first of 2 sheets, Daten; --sheet names another."]


def test_a_sheet_can_be_named_and_numbers_as_text_are_refused_where_they_are_used(workbook):
    table, said = read(workbook, sheet="Mehr")
    assert columns_of(table) == {"a": ["1,5"], "b": ["x"]}
    assert said == []
    with pytest.raises(DataError, match=r"row 2: 'a' is '1,5'.* Write 1\.5"):
        read_individuals(workbook, ["b"], ["a"], reading=Reading(sheet="Mehr"))
    with pytest.raises(DataError, match="no sheet 'x'; it has 'Daten', 'Mehr'"):
        read(workbook, sheet="x")


def test_what_is_no_workbook_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read as an Excel file"):
        read(write(tmp_path, "a,b\n1,2\n", "d.xlsx"))
    book = openpyxl.Workbook()
    book.save(tmp_path / "e.xlsx")
    with pytest.raises(DataError, match="sheet 'Sheet' is empty"):
        read(tmp_path / "e.xlsx")
    book.active.append(["a", None])
    book.active.append([1, 2])
    book.save(tmp_path / "f.xlsx")
    with pytest.raises(DataError, match="row 1: column 2 has no name"):
        read(tmp_path / "f.xlsx")


def test_without_the_extra_the_refusal_says_how_to_install_it(workbook, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "python_calamine":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'sumwise\[excel\]'"):
        read(workbook)


def sheet_with(path, cells, rows=()):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for place, value in cells.items():
        book.active[place] = value
    book.save(path)
    return path


def test_one_cell_far_away_is_refused_before_memory_is_filled(tmp_path):
    rows = [["set", "size"], ["a", 1]]
    path = sheet_with(tmp_path / "d.xlsx", {"XFD40000": 1}, rows)
    with pytest.raises(DataError, match=r"row 40000: a cell in column 16384 .*655,360,000 cells"):
        read(path)
    path = sheet_with(tmp_path / "e.xlsx", {"C40000": 1, "A1": "set", "B1": "v", "C1": "w"})
    assert columns_of(read(path)[0])["w"] == [1]


def test_a_sheet_that_unpacks_to_blanks_is_refused(tmp_path):
    path = sheet_with(tmp_path / "d.xlsx", {"A1": "set", "A2": 1})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/more.xml", " " * (2**26 + 1))
    with pytest.raises(DataError, match=r"'xl/more.xml' unpacks from .* to 67,108,865 bytes"):
        read(path)


def test_a_formula_without_result_is_refused_whatever_its_heading(tmp_path):
    path = sheet_with(tmp_path / "d.xlsx", {}, [["g", 2001], ["a", 1], ["b", "=A1"], ["a", 2]])
    with pytest.raises(DataError, match="row 3: '2001' is the formula 'A1' without its result"):
        read_individuals(path, ["g"], [])


def ods(path, rows):
    """An OpenDocument sheet; each cell is its attributes and text, each row how often it is."""
    body = "".join(
        f'<table:table-row table:number-rows-repeated="{times}">'
        + "".join(f"<table:table-cell {a}><text:p>{t}</text:p></table:table-cell>" for a, t in row)
        + "</table:table-row>"
        for times, row in rows
    )
    named = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text", "calcext")
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr("META-INF/manifest.xml", "<manifest/>")
        file.writestr(
            "content.xml",
            f"<office:document-content{named}><office:body><office:spreadsheet>"
            f'<table:table table:name="T">{body}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return path


TEXT, ONE = 'office:value-type="string"', 'office:value-type="float" office:value="1"'
ERROR = 'table:formula="of:=1/0" office:value-type="string" calcext:value-type="error"'
FAR = f'{ONE} table:number-columns-repeated="1000"'


def test_errors_and_repeats_in_opendocument_sheets_are_refused(tmp_path):
    heading = (1, [(TEXT, "g"), (TEXT, "v")])
    rows = [heading, (3, [(TEXT, "a"), (ONE, "1")])]
    path = ods(tmp_path / "d.ods", [*rows, (1, [(TEXT, "b"), (ERROR, "#DIV/0!")])])
    with pytest.raises(DataError, match="row 5: 'v' is '#DIV/0!', an error of LibreOffice"):
        read_individuals(path, ["g"], [])
    path = ods(tmp_path / "e.ods", [heading, (100_000, [(FAR, "1")])])
    with pytest.raises(DataError, match="row 100001: a cell in column 1000 makes a sheet of"):
        read(path)
    assert columns_of(read(ods(tmp_path / "f.ods", rows))[0])["v"] == [1, 1, 1]
