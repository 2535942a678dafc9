"""Places of values are those of a dictionary."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sumwise.errors import UnknownSetError
from sumwise.util.places import Places
from sumwise.util.text import by_text, find

ids = st.lists(
    st.one_of(st.text(max_size=3), st.integers(-3, 2**70), st.tuples(st.text(max_size=1))),
    unique=True,
)


class Alike(str):
    """Texts that all have the same hash."""

    def __hash__(self):
        return 7


@given(ids)
def test_every_value_is_found_and_no_other(values):
    places = Places(values)
    assert dict(places) == {value: at for at, value in enumerate(values)}
    assert "nowhere" not in places
    with pytest.raises(KeyError):
        places["nowhere"]


def test_values_with_the_same_hash_are_told_apart():
    values = [Alike(name) for name in ("a", "b", "c")]
    places = Places(values)
    assert [places[name] for name in values] == [0, 1, 2]
    assert Alike("d") not in places


def test_ids_that_look_the_same_are_not_guessed():
    known = by_text([1, "1", "2"])
    assert find(known, "2") == "2"
    with pytest.raises(UnknownSetError, match="several sets are shown as '1'"):
        find(known, "1")
    with pytest.raises(UnknownSetError, match="no set is called '3'; there is '1', '2'"):
        find(known, "3")


def test_places_take_a_fifth_of_a_dictionary():
    values = tuple(range(1000, 101_000))
    places = Places(values)
    known = {value: at for at, value in enumerate(values)}
    own = sum(each.nbytes for each in (places._order, places._codes))
    assert 5 * own < sys.getsizeof(known) + 32 * len(values)
