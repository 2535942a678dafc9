"""Room for compiled training: sizes that seldom change, and filling up that adds nothing."""

from __future__ import annotations

import itertools
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise import Neural, Sets
from sumwise.model.basis import neural
from sumwise.model.basis.training import padded_size, step_up
from tests.builders import random_sets
from tests.marks import slow
from tests.networks import UP_TO_SIX, largest_first

N_QUESTIONS = 30


def sets_of(sizes) -> Sets:
    return Sets.from_arrays([np.zeros((n, 1)) for n in sizes])


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_sizes_step_up_to_a_few_numbers_that_are_large_enough(steps):
    numbers = range(1, 5000)
    rooms = [step_up(n, steps) for n in numbers]
    assert rooms == sorted(rooms)
    for n, room in zip(numbers, rooms, strict=True):
        assert n <= room
        assert room == 16 or room < n * (1 + 1 / steps)
        assert step_up(room, steps) == room
    assert len({room for room in rooms if 1024 < room <= 2048}) == steps


def test_the_least_room_is_as_told():
    assert [step_up(n, steps=1, least=64) for n in (0, 1, 64, 65, 129)] == [64, 64, 64, 128, 256]


def test_sets_come_in_steps_of_4_and_32_and_then_half_as_many_again():
    room = largest_first(sets_of([1] * 200))
    n_sets = [padded_size(sets_of([1] * t), room)[0] for t in range(1, 201)]
    assert n_sets == sorted(n_sets)
    assert sorted(set(n_sets)) == [4, 32, 48, 64, 96, 128, 192, 256]
    assert all(t <= n for t, n in enumerate(n_sets, start=1))


@pytest.mark.parametrize("seed", range(6))
def test_there_is_padded_size_all_instances_however_unlike_the_first_sets_are(seed):
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 200, 80)) if seed % 2 else rng.integers(1, 200, 80)
    room = largest_first(sets_of(sizes[:60]))  # and sets that the pool did not have
    for t in range(1, 81):
        n_sets, n_rows = padded_size(sets_of(sizes[:t]), room)
        assert n_sets >= t
        assert n_rows >= sizes[:t].sum()


def test_nobody_needs_more_room_than_the_largest_sets_of_the_pool():
    sizes = [3] * 10
    n_sets, n_rows = padded_size(sets_of(sizes[:6]), largest_first(sets_of(sizes)))
    assert (n_sets, n_rows) == (32, 30)


def test_without_a_pool_labels_alone_say_how_much_room():
    nothing = largest_first(random_sets([2], np.random.default_rng(0))[:0])
    assert padded_size(sets_of([9, 9]), nothing) == (4, 18)
    assert padded_size(sets_of([5] * 5), nothing) == (32, 192)  # 1.15 · 32 · 5, and a step up


def rooms_of_a_run(order, sizes):
    room = largest_first(sets_of(sizes))
    return [padded_size(sets_of(sizes[order[:t]]), room) for t in range(1, N_QUESTIONS + 1)]


def changes(rooms):
    return [t + 1 for t in range(1, len(rooms)) if rooms[t] != rooms[t - 1]]


def test_asking_for_large_sets_compiles_at_questions_1_and_5_only():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 21, 300)
        nearly_largest = np.argsort(-sizes + rng.normal(0, 1, 300))
        assert changes(rooms_of_a_run(nearly_largest, sizes)) == [5]


def test_asking_at_random_compiles_at_questions_1_and_5_only():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 21, 300)
        assert changes(rooms_of_a_run(rng.permutation(300), sizes)) == [5]


def test_the_room_never_shrinks():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 21, 300)
        for first, second in itertools.pairwise(rooms_of_a_run(rng.permutation(300), sizes)):
            assert first[0] <= second[0]
            assert first[1] <= second[1]


# --- filling up -----------------------------------------------------------------------------------

ROOMS = [(9, 25), (12, 40), (40, 112)]  # at 40 features all are t×t, at 6 all are K×K


@eqx.filter_jit
def look(state, data):
    return eqx.filter_value_and_grad(lambda state: neural.log_evidence(*state, data))(state)


@pytest.mark.slow  # the quick test after it changes what fills up the room
@pytest.mark.parametrize("n_basis", [6, 40])
def test_the_same_sets_have_the_same_evidence_and_slopes_in_any_room(n_basis, monkeypatch):
    rng = np.random.default_rng(3)
    sets = random_sets([1, 4, 2, 1, 6, 3, 2, 5, 1], rng)
    settings = Neural(width=4, depth=2, n_basis=n_basis, dtype="float64")
    basis, y_bar = settings.draw(sets, rng), rng.normal(size=(9, 2))
    seen = []
    with jax.enable_x64(True):
        for room in ROOMS:
            module = sys.modules[neural.flat.__module__]
            monkeypatch.setattr(module, "padded_size", lambda sets, known, room=room: room)
            data = neural.flat(sets, y_bar, "float64", UP_TO_SIX)
            assert (data.real.size, len(data.x)) == room
            seen.append(look((basis.network, jnp.asarray([0.3, 1.2])), data))
    (value, slopes), *others = seen
    for other_value, other_slopes in others:
        assert_allclose(other_value, value, rtol=1e-13)
        for ours, theirs in zip(
            jax.tree.leaves(slopes), jax.tree.leaves(other_slopes), strict=True
        ):
            assert_allclose(theirs, ours, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("n_basis", [6, *slow(40)])
def test_what_fills_up_has_no_influence(n_basis):
    """Neither have its inputs a slope, nor does the evidence change when they do."""
    rng = np.random.default_rng(3)
    sets = random_sets([1, 4, 2, 1, 6], rng)
    basis = Neural(width=4, depth=2, n_basis=n_basis, dtype="float64").draw(sets, rng)
    state = (basis.network, np.array([0.3, 1.2]))

    @jax.jit
    def evidence_of(x, target, data):
        return neural.log_evidence(*state, data._replace(x=x, target=target))

    with jax.enable_x64(True):
        data = neural.flat(sets, rng.normal(size=(5, 1)), "float64", UP_TO_SIX)
        look = jax.jit(jax.value_and_grad(evidence_of, argnums=(0, 1)))
        value, (by_x, by_target) = look(data.x, data.target, data)
        elsewhere, _ = look(data.x.at[14:].set(7.0), data.target, data)
    assert (np.asarray(by_x)[:14] != 0).any()
    assert (np.asarray(by_x)[14:] == 0).all()
    assert (np.asarray(by_target)[:5] != 0).all()
    assert (np.asarray(by_target)[5:] == 0).all()
    assert elsewhere == value


def test_a_network_that_is_not_defined_at_zero_can_be_trained():
    rng = np.random.default_rng(0)
    sets = Sets.from_arrays([rng.uniform(1, 3, size=(n, 2)) for n in (2, 3, 1, 4)])
    parameters = {"weight": rng.normal(size=(3, 2)), "bias": np.ones(3)}
    network = Neural(
        network=lambda p, row: p["weight"] @ jnp.log(row) + p["bias"],
        parameters=parameters,
        epochs=5,
    )
    model = sw.AggregateRegressor(network, standardize=False).fit(sets, rng.normal(size=4))
    assert np.isfinite(model.predict(sets.x)).all()
