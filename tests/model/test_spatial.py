"""Waves of a position, against exact covariances on the sphere and in a plane."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data.targets import Inputs
from sumwise.model.basis import Scaled, spatial
from sumwise.model.design import embed
from sumwise.model.fit import ModelConfig
from sumwise.model.serialize import (
    from_bytes,
    pack_config,
    pack_prepared,
    to_bytes,
    unpack_config,
    unpack_prepared,
)
from tests import oracles, parquet

LENGTHS = [1.0, 0.3, 0.1, 0.03]


def on_globe(n, rng):
    """Longitude and latitude of points spread evenly over the sphere, poles included."""
    height = rng.uniform(-1, 1, n)
    height[:2] = 1, -1
    return np.column_stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(height))])


def frame_of(places, names=("lon", "lat"), seed=0, **columns):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(places, columns=list(names)).assign(z=rng.normal(size=len(places)))
    return frame.assign(set=[f"s{n:03}" for n in np.arange(len(places)) // 4], **columns)


def sets_of(frame, by="set"):
    return sw.Sets.from_frame(frame, by=by, x=[name for name in frame if name != by])


def basis_of(places, names=("lon", "lat"), **settings) -> Scaled:
    return ModelConfig(**settings).prepare(sets_of(frame_of(places, names))).basis


def waves_of(basis, x):
    """Features of the position alone, a block for each length-scale."""
    place = basis.basis.spatial
    ends = np.cumsum(place.lengths[1]).astype(int)
    phi = basis(x)[:, -1 - ends[-1] : -1]
    return np.split(phi, ends[:-1], axis=1)


def kernel_error(basis, x, distance, extent):
    """The worst error of squared distances between features, one for each length-scale."""
    worst = []
    for phi, e in zip(waves_of(basis, x), LENGTHS, strict=True):
        got = ((phi[:, None] - phi[None]) ** 2).sum(axis=2)
        expected = 1 - np.exp(-((distance / (e * extent)) ** 2) / 2)
        worst.append(abs(got / got.sum() - expected / expected.sum()).max() * expected.sum())
    return np.array(worst)


def great_circle(places):
    """Angles between points, by the law of cosines of a spherical triangle."""
    lon, lat = np.radians(places).T
    cosine = np.sin(lat)[:, None] * np.sin(lat) + np.cos(lat)[:, None] * np.cos(lat) * np.cos(
        lon[:, None] - lon
    )
    return np.arccos(np.clip(cosine, -1, 1))


def extent_of(distance):
    """√6 times the root mean square distance from the centre, from distances of pairs alone."""
    return math.sqrt(6 * (distance**2).mean() / 2)


@pytest.mark.parametrize("kind", ["globe", "country", "plane"])
def test_the_kernel_is_the_exact_one_ever_better_as_features_grow(kind):
    rng = np.random.default_rng(1)
    if kind == "plane":
        places, names = rng.uniform([3e5, 5e6], [4e5, 5.2e6], (40, 2)), ("easting", "northing")
        distance = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    else:
        places, names = on_globe(40, rng), ("lon", "lat")
        if kind == "country":  # across the 180th meridian
            places = np.column_stack([rng.uniform(170, 190, 40), rng.uniform(-50, -35, 40)])
            places[:, 0] -= 360 * (places[:, 0] > 180)
        distance = 2 * np.sin(great_circle(places) / 2)
    errors = []
    for n_basis in (128, 768, 4608):
        basis = basis_of(places, names, n_basis=n_basis)
        x = sets_of(frame_of(places, names)).x
        errors.append(kernel_error(basis, x, distance, extent_of(distance)))
        assert_allclose(basis.basis.spatial.extent, extent_of(distance), rtol=1e-9)
    for error, most in zip(errors, (0.8, 0.2, 0.08), strict=True):
        assert (error < most).all()


def test_features_are_those_of_the_definition():
    """Written out for each individual, wave and length-scale; each length-scale has power 1."""
    places = on_globe(100, np.random.default_rng(2))
    basis, x = basis_of(places, n_basis=16), sets_of(frame_of(places)).x
    place = basis.basis.spatial
    assert place.lengths.tolist() == [LENGTHS, [2, 4, 8, 16]]
    lon, lat = np.radians(places).T
    p = np.array(
        [
            [np.cos(b) * np.cos(a), np.cos(b) * np.sin(a), np.sin(b)]
            for a, b in zip(lon, lat, strict=True)
        ]
    )
    z = (p - p.mean(axis=0)) / math.sqrt(6 * ((p - p.mean(axis=0)) ** 2).sum() / len(p))
    first = 0
    for phi, e, count in zip(waves_of(basis, x), *place.lengths, strict=True):
        own = place.frequencies[first : first + int(count) // 2]
        assert_allclose(own[0], place.frequencies[0] / e * place.lengths[0, 0])
        turns = [[w @ row for w in own] for row in z]
        plain = np.hstack([np.cos(turns), np.sin(turns)])
        plain -= plain.mean(axis=0)
        plain /= math.sqrt((plain**2).sum() / len(plain))
        assert_allclose(phi, plain, atol=1e-9)
        first += int(count)


def test_nothing_depends_on_where_longitudes_begin_or_on_the_unit_of_a_plane():
    rng = np.random.default_rng(3)
    places = on_globe(60, rng)
    moved = places + [360.0, 0.0] * (places[:, :1] < 0)
    for other, names in ((moved, ("lon", "lat")), (places * 1e-3 + 7, ("easting", "northing"))):
        one, two = (sets_of(frame_of(each, names)) for each in (places, other))
        here, there = (ModelConfig().prepare(each).basis for each in (one, two))
        for a, b in zip(waves_of(here, one.x), waves_of(there, two.x), strict=True):
            assert_allclose(a, b, atol=1e-8)


def test_a_turn_of_the_globe_changes_no_distance():
    rng = np.random.default_rng(4)
    places = on_globe(40, rng)
    lon, lat = np.radians(places).T
    p = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    q = p @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = np.degrees(np.column_stack([np.arctan2(q[:, 1], q[:, 0]), np.arcsin(q[:, 2])]))
    distance = 2 * np.sin(great_circle(places) / 2)
    basis = basis_of(turned, n_basis=4096)
    error = kernel_error(basis, sets_of(frame_of(turned)).x, distance, extent_of(distance))
    assert (error < 0.1).all()


def test_neighbours_across_the_180th_meridian_and_the_pole_are_predicted_alike():
    rng = np.random.default_rng(5)
    places = on_globe(400, rng)
    frame = frame_of(places)
    lon, lat = np.radians(places).T
    frame["y"] = 3 * np.cos(lat) * np.cos(lon) + 2 * np.sin(lat)
    sets = sets_of(frame.drop(columns="y"))
    model = sw.AggregateRegressor().fit(sets, frame.groupby("set")["y"].sum().to_dict())
    pairs = pd.DataFrame({"lon": [179.99, -179.99, 0.0, 180.0], "lat": [10.0, 10.0, 89.99, 89.99]})
    for phi in waves_of(model.fitted().basis, pairs.assign(z=0.0).to_numpy()):
        assert_allclose(phi[::2], phi[1::2], atol=0.02)
    mean = model.predict(pairs.assign(z=0.0))
    assert_allclose(mean[::2], mean[1::2], atol=0.25)
    assert "Of what they explain, " in model.summary()
    assert "smooth in the position alone (length-scales: " in model.summary()
    assert " km" in model.summary()


RECOGNISED = {
    "degrees": (("z", "Longitude", "LATITUDE"), (0, 50, 40), (1, 60, 70), "auto", ([1, 2], True)),
    "short": (("lat", "lon", "z"), (-90, -180, 0), (90, 180, 1), "auto", ([1, 0], True)),
    "0 to 360": (("lng", "lat"), (0, 0), (360, 1), "auto", ([0, 1], True)),
    "survey": (("northing", "easting"), (0, 0), (6e6, 5e5), "auto", ([1, 0], False)),
    "too far": (("lon", "lat"), (0, 0), (1, 91), "auto", None),
    "metres": (("lon", "lat"), (3e5, 5e6), (4e5, 6e6), "auto", None),
    "x and y": (("x", "y"), (0, 0), (1, 1), "auto", None),
    "twice": (("lon", "LON", "lat"), (0, 0, 0), (1, 1, 1), "auto", None),
    "no names": (None, (0, 0), (1, 1), "auto", None),
    "one place": (("lon", "lat"), (5, 5), (5, 5), "auto", None),
    "refused": (("lon", "lat"), (0, 0), (1, 1), None, None),
    "named": (("a", "b", "c"), (0, 0, 0), (1, 1, 1), ("c", "a"), ([2, 0], False)),
    "named degrees": (("LAT_DD", "lng_dd"), (0, 0), (1, 1), ("LAT_DD", "lng_dd"), ([1, 0], True)),
    "named metres": (("lon", "lat"), (3e5, 5e6), (4e5, 6e6), ("lon", "lat"), ([0, 1], False)),
    "latency": (("latency", "cost"), (0, 0), (1, 1), ("latency", "cost"), ([0, 1], False)),
    "by number": (None, (0, 0), (1, 1), (1, 0), ([1, 0], False)),
}


@pytest.mark.parametrize("case", RECOGNISED)
def test_a_position_is_what_is_called_so_with_such_values(case):
    names, low, high, wanted, expected = RECOGNISED[case]
    found = spatial.find(wanted, names, Inputs.of(np.array([low, high], dtype=float)))
    assert (found if found is None else ([*found[0]], found[1])) == expected


@pytest.mark.parametrize("wrong", ["lon", ("lon",), ("lon", "lat", "z"), ("lon", "lon"), 5, True])
def test_what_names_no_pair_is_refused(wrong):
    with pytest.raises(sw.SettingError, match=r"spatial is .* give two inputs' names"):
        ModelConfig(spatial=wrong)
    with pytest.raises(sw.SettingError, match=r"spatial is array"):
        ModelConfig(spatial=np.array(["lon", "lat"]))
    with pytest.raises(sw.SettingError, match="leave it out with another basis"):
        ModelConfig("linear", spatial=("lon", "lat"))
    with pytest.raises(
        sw.SettingError, match=r"spatial names 'a', which is none of the inputs ..lon', 'lat'"
    ):
        basis_of(on_globe(20, np.random.default_rng(0)), spatial=("a", "lat"))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_hypotheses_count_by_their_dense_density(n_outputs):
    """p(D | h)^0.6 with all individuals' outputs as one Gaussian, and predictions from these."""
    rng = np.random.default_rng(6)
    places = rng.uniform([0, 40], [10, 50], (60, 2))
    sets = sets_of(frame_of(places))
    y_bar = rng.normal(size=(15, n_outputs)) + np.sin(sets.x[::4, :1])
    model = sw.AggregateRegressor(n_basis=16).fit(sets, y_bar)
    fitted, basis = model.fitted(), model.fitted().basis
    mixed, known, phi = fitted.mixture, basis.basis.hypotheses, basis(sets.x)
    widths = [at.stop - at.start for at in basis.basis.groups]
    assert sum(widths) == phi.shape[1]
    prior, nu = 4 * mixed.totals.prior_scale, 4 + 14
    z, logs, means = mixed.totals.z, [], []
    for h, variances in enumerate(known.variances):
        each = np.repeat(variances, widths), known.noise[h], known.correlation[h]
        world = oracles.world(sets, phi, *each)
        power = np.einsum("tm,tm->m", z, np.linalg.solve(world.totals, z))
        log_det = np.linalg.slogdet(world.totals)[1]
        logs.append(-0.5 * (n_outputs * log_det + nu * np.log(prior + power).sum()))
        means.append(oracles.World(phi * each[0] @ phi.T, world.sums, world.known))
        means[-1] = means[-1].outputs @ world.sums.T @ np.linalg.solve(world.totals, z)
    chance = np.exp(0.6 * (np.array(logs) - max(logs)))[mixed.origin]
    assert_allclose(mixed.probability, chance / chance.sum(), rtol=1e-6)
    expected = np.einsum("h,hnm->nm", mixed.probability, np.array(means)[mixed.origin])
    expected = fitted.offset + fitted.posterior.output_scale * expected
    assert_allclose(model.predict(sets.x).reshape(-1, n_outputs), expected, rtol=1e-6, atol=1e-8)


def test_each_hypothesis_comes_again_with_a_share_in_the_position_and_the_variance_it_had():
    places = on_globe(200, np.random.default_rng(7))
    got = basis_of(places, n_basis=32).basis.hypotheses
    before = basis_of(places, n_basis=32, spatial=None).basis.hypotheses
    place, rest, n = got.variances[:, -5:-1], got.variances[:, :-5], len(before.noise)
    assert (rest[:n] == before.variances[:, :-1]).all()
    assert not place[:n].any()
    assert (got.noise == np.tile(before.noise, 2)).all()
    assert (got.correlation == np.tile(before.correlation, 2)).all()
    assert (got.variances[:, -1] == 1).all()
    signal = before.noise < 1
    place, rest = place[n:][signal], rest[n:][signal]
    share = place.sum(axis=1) / (1 - before.noise[signal])
    assert {*share.round(6)} == {1.0, 0.8, 0.4}
    assert ((place > 0).sum(axis=1) == 1).all()
    assert ((place > 0).mean(axis=0) > 0.2).all()
    assert_allclose(rest, before.variances[signal, :-1] * (1 - share)[:, None], atol=1e-12)


@pytest.mark.parametrize("width", [360.0, 1e-3])
def test_compiled_sums_are_those_of_the_features(width):
    rng = np.random.default_rng(8)
    places = np.column_stack([rng.uniform(-width / 2, width / 2, 80), rng.uniform(0, 1e-3, 80)])
    sets = sets_of(frame_of(places))
    basis = ModelConfig(n_basis=32).prepare(sets).basis
    plain, compiled = (embed(sets, basis, compiled=c) for c in (False, True))
    assert_allclose(compiled.u, plain.u, rtol=1e-10, atol=1e-10)
    view = basis.views((sets.x - basis.shift) / basis.scale)[-1]
    assert abs(view).max() <= basis.waves[-1].farthest  # by which precision is chosen
    far = basis.views((np.array([[90.0, -80.0, 0.0]]) - basis.shift) / basis.scale)[-1]
    assert abs(far).max() <= basis.waves[-1].farthest


def test_it_is_stored_and_former_models_have_none(monkeypatch):
    sets = sets_of(frame_of(on_globe(60, np.random.default_rng(9))))
    config = ModelConfig(n_basis=16, spatial=("lat", "lon"))
    assert unpack_config(pack_config(config)) == config
    assert "spatial" not in pack_config(ModelConfig())  # as former versions wrote it
    for each in (config, ModelConfig(n_basis=16)):
        prepared = each.prepare(sets)
        again = unpack_prepared(pack_prepared(prepared), each, sets)
        assert (again.basis(sets.x) == prepared.basis(sets.x)).all()
        assert again.drawn_for(sets).basis.same_as(prepared.basis)
    former = ModelConfig(n_basis=16, spatial=None).prepare(sets)
    opened = unpack_prepared(pack_prepared(former), ModelConfig(n_basis=16), sets)
    assert opened.basis.same_as(former.basis)
    assert opened.drawn_for(sets).basis.same_as(former.basis)
    assert opened.drawn_for(sets).config == ModelConfig(n_basis=16)
    arrays = from_bytes(pack_prepared(prepared), "it")
    del arrays["spatial_extent"]
    with pytest.raises(sw.DataError, match=r"basis cannot be read .*spatial_extent"):
        unpack_prepared(to_bytes(arrays), ModelConfig(n_basis=16), sets)


@pytest.mark.parametrize("former", [False, True])
def test_a_study_goes_on_after_a_restart_and_an_export(former, tmp_path, monkeypatch):
    frame = frame_of(on_globe(60, np.random.default_rng(10)))
    sets, found = sets_of(frame), spatial.find
    model = sw.AggregateRegressor(n_basis=16)
    monkeypatch.setattr(spatial, "find", lambda *a: None if former else found(*a))
    learner = sw.ActiveLearner(sets, model=model, seed=0)
    sw.create_study(tmp_path / "s.db", sets, model=model, seed=0).close()
    for _ in range(4):
        learner.tell(learner.ask().set_id, 2.0 + len(learner.labels))
    monkeypatch.undo()
    with sw.open_study(tmp_path / "s.db") as study:
        for name, total in learner.labels.items():
            assert study.ask().set_id == name
            study.tell(name, total)
        study.export(tmp_path / "out")
        assert study.ask().set_id == learner.ask().set_id
    with sw.import_study(tmp_path / "out", tmp_path / "again.db") as again:
        assert again.ask().set_id == learner.ask().set_id
        assert again.model.summary() == learner.model.summary()
        again.change_pool(add=frame.iloc[:4].assign(set="new", lon=[1.0, 2.0, 3.0, 4.0]))
        place = again.model.fitted().basis.basis.spatial
        assert (place is None) == former


def test_files_and_any_table_give_the_same(tmp_path):
    rng = np.random.default_rng(11)
    frame = frame_of(on_globe(80, rng)).assign(theta=1.0)
    inputs = ["lon", "lat", "z"]
    sets = sw.Sets.from_frame(frame, by="set", x=inputs)
    folder = parquet.write(pa.Table.from_pandas(frame), tmp_path / "data", cuts=[30])
    scan = sw.Sets.scan_parquet(folder, by="set", x=inputs)
    model = sw.AggregateRegressor(n_basis=16)
    made = model.embed(scan, tmp_path / "design")
    totals = dict(zip(sets.ids[:10], rng.normal(size=10).tolist(), strict=True))
    there = sw.AggregateRegressor(n_basis=16).fit(made, totals)
    here = sw.AggregateRegressor(n_basis=16).fit(sets, totals)
    assert here.fitted().basis.basis.spatial is not None
    assert_allclose(made.own_pool.design.u, here.fitted().pool(sets).design.u, atol=1e-9)
    mean = here.predict(frame[inputs])
    assert_allclose(there.predict(frame[inputs]), mean, rtol=1e-6, atol=1e-8)
    for table in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        made = sw.AggregateRegressor(n_basis=16)
        made.fit(sw.Sets.from_frame(table, by="set", x=inputs), totals)
        assert_allclose(made.predict(table.select(inputs)), mean, rtol=1e-9)


@pytest.mark.parametrize("outputs", ["counts", "shares", "amounts"])
def test_counts_shares_and_amounts_have_it_too(outputs):
    rng = np.random.default_rng(12)
    frame = frame_of(on_globe(80, rng)).assign(e=20.0)
    sets = sw.Sets.from_frame(frame, by="set", x=["lon", "lat", "z"], weights="e")
    totals = rng.integers(1, 60, len(sets)).astype(float)
    model = sw.AggregateRegressor(n_basis=16, outputs=outputs).fit(sets, totals)
    assert "smooth in the position alone" in model.summary()
    assert np.isfinite(model.predict(frame[["lon", "lat", "z"]])).all()
