"""The paper's data sets: read, checked, scaled, fetched."""

from __future__ import annotations

import http.server
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sumwise.errors import DataError
from sumwise.experiments import datasets
from tests.datasets import data_folder


@pytest.mark.parametrize("name", datasets.LIBSVM)
def test_a_libsvm_set_has_its_rows_and_attributes_in_minus_one_to_one(name):
    _, rows, attributes = datasets.LIBSVM[name]
    dataset = datasets.load(name, data_folder())
    assert dataset.x.shape == (rows, attributes)
    assert dataset.y.shape == (rows,)
    assert (dataset.y.min(), dataset.y.max()) == (-1, 1)
    assert_allclose(abs(dataset.x).max(axis=0), 1)
    assert dataset.group is None


def test_our_scaling_is_that_of_libsvms_scaled_files():
    ours = datasets.load("Abalone", data_folder()).x
    theirs, _ = datasets.read_libsvm(data_folder() / "libsvm" / "abalone_scale", 8)
    assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("name", ["MAT", "DD-0", "Tave-wt"])
def test_a_climate_set_has_28_attributes_and_states_as_groups(name):
    dataset = datasets.load(name, data_folder())
    assert dataset.x.shape == (381, 28)
    assert len(np.unique(dataset.group)) == 76
    assert (dataset.y.min(), dataset.y.max()) == (-1, 1)
    assert not any((dataset.x[:, d] == dataset.y).all() for d in range(28))


def test_there_are_32_data_sets():
    assert len(datasets.NAMES) == len(set(datasets.NAMES)) == 32


def test_what_does_not_vary_becomes_zero():
    scaled = datasets.unit_range(np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]))
    assert scaled.tolist() == [[-1, 0], [1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\nhello\n", "line 2: not LIBSVM's format"),
        ("1 1:2 9:3\n", "line 1: .*index 8 is out of bounds"),
        ("1 1=2\n", "line 1"),
        ("1 1:2\n1 1:nan\n", "line 2: .*not finite"),
        ("\n\n", "line 1"),
    ],
)
def test_a_damaged_libsvm_file_is_refused_naming_the_line(tmp_path, text, message):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        datasets.read_libsvm(path, 2)


def climate_text(**changes):
    columns = ["state", *datasets.PLACE, *(n.replace("-", "_") for n in datasets.CLIMATE)]
    rows = [["abbc"[r], *(str(r * d + 1.0) for d in range(29))] for r in range(4)]
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    table[2].update(changes)
    return "\n".join([",".join(columns), *(",".join(row.values()) for row in table)]) + "\n"


def test_a_climate_file_is_checked_column_by_column(tmp_path):
    path = tmp_path / "climate.csv"
    path.write_text(climate_text())
    assert datasets.read_climate(path, "MAT").group.tolist() == [0, 1, 1, 2]
    path.write_text(climate_text(DD_0="cold"))
    with pytest.raises(DataError, match=r"line 4.*: 'DD_0' is 'cold', not a number"):
        datasets.read_climate(path, "MAT")
    path.write_text(climate_text().replace("Eref", "eref"))
    with pytest.raises(DataError, match="has no column 'Eref'"):
        datasets.read_climate(path, "MAT")
    for text in ("", climate_text().splitlines()[0] + "\n"):
        path.write_text(text)
        with pytest.raises(DataError, match=r"(is empty|no rows).*26 variables"):
            datasets.read_climate(path, "MAT")
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\xff")
    with pytest.raises(DataError, match=r"climate.csv, line 3: .* holds a zero byte"):
        datasets.read_climate(path, "MAT")
    for name in ("lon", "state"):
        path.write_text(climate_text().replace(name, "other", 1))
        with pytest.raises(DataError, match=rf"no column '{name}' \(needed\).* lon, lat, elev, st"):
            datasets.read_climate(path, "MAT")
    path.write_text(climate_text(state=""))
    with pytest.raises(DataError, match="line 4: 'state' is missing"):
        datasets.read_climate(path, "MAT")
    path.write_text(climate_text(state="a").replace("\nb,", "\na,"))
    with pytest.raises(DataError, match="has 2 groups by 'state'; at least 3"):
        datasets.read_climate(path, "MAT")


def test_a_constant_target_is_refused(tmp_path):
    (tmp_path / "libsvm").mkdir()
    (tmp_path / "libsvm" / "mg").write_text("7 1:2\n" * 1385)
    with pytest.raises(DataError, match=r"'Mg' goes from 7 to 7; a target must vary"):
        datasets.load("Mg", tmp_path)


def test_a_fingerprint_changes_with_any_number():
    dataset = datasets.Dataset("Mg", np.ones((3, 2)), np.arange(3.0))
    other = datasets.Dataset("Mg", np.ones((3, 2)), np.array([0.0, 1.0, 2.0 + 1e-15]))
    assert datasets.fingerprint(dataset) != datasets.fingerprint(other)
    assert datasets.fingerprint(dataset) == datasets.fingerprint(dataset)


def test_missing_files_and_names_are_refused(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        datasets.load("Abalone", tmp_path)
    with pytest.raises(DataError, match="there is no file"):
        datasets.load("MAT", tmp_path)
    with pytest.raises(DataError, match="climate data have no download; pass --data"):
        datasets.load("MAT")
    (tmp_path / "libsvm").mkdir()
    (tmp_path / "libsvm" / "mg").write_text("1 1:2\n")
    with pytest.raises(DataError, match="has 1 rows; Mg has 1385"):
        datasets.load("Mg", tmp_path)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A real server on loopback in place of the public home."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    served = tmp_path / "served"
    served.mkdir()
    (served / "mg").write_text("1 1:2\n0.5 1:3\n")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(served))

        def log_message(self, *args):
            asked.append(args)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        server.shutdown()


def test_a_file_is_fetched_once_and_kept(home):
    address, asked = home
    path = datasets.fetch("mg", 2, address)
    assert path.read_text() == "1 1:2\n0.5 1:3\n"
    assert datasets.fetch("mg", 2, address) == path
    assert len(asked) == 1


def test_a_file_with_too_few_rows_is_not_kept(home):
    with pytest.raises(DataError, match="came with 2 of 9 rows"):
        datasets.fetch("mg", 9, home[0])
    assert not list(datasets.cache_folder().glob("*"))


def test_without_a_network_it_says_what_to_do(home):
    with pytest.raises(DataError, match=r"cannot be reached .*pass --data DIR"):
        datasets.fetch("mg", 2, "http://127.0.0.1:1/")
    with pytest.raises(DataError, match="cannot be reached"):
        datasets.fetch("absent", 2, home[0])
