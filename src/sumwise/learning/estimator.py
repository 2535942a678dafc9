"""`AggregateRegressor`: the scikit-learn face of `model`.

It follows scikit-learn's conventions without inheriting from its base class, because importing
that costs more than a second of CPU and a question should not. scikit-learn is imported where it
is really needed: `score`, estimator tags, metadata requests, and `NotFittedError`.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from typing import Any, Final

import numpy as np

from sumwise.data.about import About
from sumwise.data.frames import as_frame, to_float
from sumwise.data.parquet import Scan
from sumwise.data.recipe import Encoded, Recipe
from sumwise.data.sets import Sets
from sumwise.data.validate import check_labels, count
from sumwise.errors import InvalidSetError, SettingError
from sumwise.learning import individuals as rows_in
from sumwise.learning import rows as by_row
from sumwise.learning import summary as describing
from sumwise.learning.fitting import fit_sets
from sumwise.model import fit as core
from sumwise.model import predict as predictions
from sumwise.model.basis import Basis, Neural
from sumwise.model.bounded import totals_of, within
from sumwise.model.predict import Predictions, check_level
from sumwise.outofcore import predict_parquet as streams
from sumwise.outofcore.build import embed_scan, in_threads
from sumwise.outofcore.design_store import Embedded, as_sets
from sumwise.util import html
from sumwise.util.progress import Slow
from sumwise.util.shapes import Float

SETTINGS: Final = tuple(setting.name for setting in fields(core.ModelConfig))
REQUESTS: Final = {  # what scikit-learn may route to a method
    "fit": ("groups", "sample_weight", "weights", "pool", "noise_std", "exposure"),
    "predict": ("groups", "return_std", "return_cov", "include_noise", "exposure"),
    "score": ("groups", "sample_weight", "weights"),
}


@dataclass(eq=False, repr=False)
class AggregateRegressor:
    """Learn individual outputs from weighted sums over sets of individuals.

    Args:
        basis: `"auto"` (linear parts and Fourier features of several length-scales and scalings of
            the inputs, weighted by the answers), `"fourier"` (random Fourier features of one
            length-scale: an approximate Gaussian process), `"linear"`, `"polynomial"`, `"neural"`
            (a network that is trained too; `Neural` has its options), an Equinox module, or any
            function from an (N, D) array to an (N, K) array.
        n_basis: K of the Fourier basis, bias included, and of `"neural"`; for `"auto"`, twice the
            average number of waves of a length-scale.
        lengthscale: Of the Fourier basis, in standard deviations of the inputs; for `"auto"`, a
            factor on the length-scales that it chooses from.
        degree: Of the polynomial basis.
        hyperparameters: How λ (precision of the prior) and β (precision of an individual's noise)
            are found: `"evidence"` maximises the evidence, `"adam"` is the paper's search, and two
            numbers (λ, β) fix them, in the units of the outputs.
        evidence_prior: Add a weak prior on log λ and log β to `"evidence"`, so that β does not
            diverge while there are few labels.
        standardize: Standardise inputs and outputs internally; results are in your units.
        random_state: Seed of what the basis draws, a whole number; None draws anew at each fit.
        outputs: Kind of outputs: `"numbers"`; `"counts"` (events: whole numbers from 0); `"shares"`
            (successes in trials); or `"amounts"` (above 0). The weights of individuals are then
            their exposures, or numbers of trials.
        spatial: Two inputs that are a position, for which `"auto"` has waves of their own: names of
            longitude and latitude, or of x and y in a plane. `"auto"` takes inputs that are called
            longitude and latitude, or easting and northing; None takes none.

    >>> import numpy as np, sumwise as sw
    >>> rng = np.random.default_rng(0)
    >>> x = [rng.normal(size=(n, 1)) for n in (3, 1, 4, 2, 5, 2)]
    >>> sets = sw.Sets.from_arrays(x)
    >>> model = sw.AggregateRegressor(basis="linear").fit(sets, [10 + 2 * len(b) for b in x])
    >>> model.predict([[0.0], [1.0]]).shape
    (2,)
    """

    basis: str | Basis | Neural = "auto"
    _: KW_ONLY
    n_basis: int = 128
    lengthscale: float = 1.0
    degree: int = 2
    hyperparameters: str | tuple[float, float] = "evidence"
    evidence_prior: bool = True
    standardize: bool = True
    random_state: int | None = 0
    outputs: str = "numbers"
    spatial: str | tuple[Hashable, Hashable] | None = "auto"
    fitted_: core.Model = field(init=False)  #: What was learned.
    prepared_: core.Prepared = field(init=False)  #: What was known before any answer.
    n_features_in_: int = field(init=False)  #: Number of inputs.
    _one_output: bool = field(init=False)
    _recipe: Recipe | None = field(init=False)
    _weights: str | None = field(init=False)  # "sum" or "mean", where fit was told
    _totals: dict[Any, list[float]] = field(init=False)

    # --- learning -----------------------------------------------------------------------------

    def fit(
        self,
        sets: Any,
        y_bar: Any,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        weights: str = "sum",
        pool: Sets | None = None,
        noise_std: Any = None,
        known: Any = None,
        exposure: Any = None,
    ) -> AggregateRegressor:
        """Learn from one total per set; no sets gives the prior.

        Args:
            sets: A `Sets`; or what `embed` has written, and then `y_bar` is a dict of the totals
                that are known, by id; or X, the individuals as rows of an array or a data frame,
                as scikit-learn gives them.
            y_bar: Totals in your units. By id: a dict, a pandas Series whose index holds the ids,
                or a data frame with a column for the id (named as in `by` of the sets, `set` or
                `id`) and one for the total, or one for each of several outputs; sets that it does
                not name are not measured. By position: a list or an array with one entry, or row
                of several outputs, for each set in the order of `sets.ids`. With X, there may also
                be one for each row, the total of its group.
            groups: With X, the id of each row's group; if left out, every row is a group of one, so
                that `y_bar` holds the outputs of individuals.
            sample_weight: With X and groups, the θ of each row, if totals are weighted sums.
            weights: With X, whether totals are the `"sum"` or the `"mean"` of a group.
            pool: Sets whose inputs set the standardisation, if not `sets` themselves: usually
                everything you know of, measured or not.
            noise_std: Standard deviation of each measurement's known noise, in addition to that of
                its individuals (noise added for privacy, a survey's error): one number, one for
                each set, a dict by id, or a function of the sets.
            known: Data in addition to `y_bar`, which may then be None: totals of sets, outputs of
                individuals, totals of larger or overlapping areas. One of these, or a list: a dict
                or pandas Series of totals by id; a data frame with a column of numbers and a column
                that names sets (as in `y_bar`), individuals (`id` of the sets, or all inputs) or
                areas (`areas` of the sets, or some of several columns that they were grouped by). A
                column `noise_std` holds known noise. Needs sets.
            exposure: With X, the name of `sample_weight` for counts, shares and amounts.

        >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> AggregateRegressor("linear").fit(x, {"a": 3.0, "b": 12.0}, groups=["a", "b", "a", "b"])
        AggregateRegressor(basis='linear')
        """
        kind, given = None, (groups, weights, sample_weight, exposure)
        if not isinstance(sets, Sets | Embedded | Scan | None):
            if pool is not None or known is not None:
                raise SettingError("pool and known go with sets: make these with Sets.from_frame")
            sets, y_bar, kind = by_row.sets_and_totals(sets, y_bar, *given)
        elif any(v is not None for v in (groups, sample_weight, exposure)) or weights != "sum":
            raise SettingError("groups, exposure, sample_weight and weights go with X, not sets")
        learned = fit_sets(self.config(), sets, y_bar, pool, noise_std, known)
        measured, one = learned.measured, learned.one_output
        vars(self).pop("feature_names_in_", None)  # of another fit
        vars(self).update(_fitted_attributes(learned.fitted, measured, one_output=one))
        self.prepared_, self._weights = learned.prepared, kind
        self._totals = dict(zip(measured.ids, learned.labels.tolist(), strict=True))
        return self

    def embed(
        self,
        pool: Scan,
        out: str | os.PathLike[str],
        *,
        dtype: str = "float64",
        memory: int | None = None,
        run: Any = None,
    ) -> Embedded:
        """Stream a pool in Parquet files to a design on disk, which studies and learners take.

        A fitted model uses its own basis. A model that is not fitted reads the inputs once more to
        draw a basis for them. If the call is interrupted, repeat it to continue.

        Args:
            pool: From `Sets.scan_parquet`.
            out: A folder, which is made.
            dtype: Of the rows on disk: `"float64"`, or `"float32"` for half the space and a third
                of the time, with features that are right to about 1e-6. Of counts, shares and
                amounts, individuals are written as they are, in double precision.
            memory: Bytes that sorting may take if the rows of a set do not follow one another;
                half a gigabyte if left out.
            run: Where parts are worked on: in threads, unless `sumwise.distributed` says otherwise.
        """
        drawn, scan = drawn_for(self, pool)
        config, run = self.config(), run or in_threads
        return embed_scan(scan, config, out, prepared=drawn, dtype=dtype, memory=memory, run=run)

    @classmethod
    def from_config(cls, config: core.ModelConfig) -> AggregateRegressor:
        """An estimator with these settings."""
        return cls(**{name: getattr(config, name) for name in SETTINGS})

    @classmethod
    def from_fitted(
        cls, config: core.ModelConfig, fitted: core.Model, sets: Sets
    ) -> AggregateRegressor:
        """The estimator of a model that was fitted elsewhere on sets with these inputs."""
        made = cls.from_config(config)
        vars(made).update(_fitted_attributes(fitted, sets, one_output=True))
        return made

    def config(self) -> core.ModelConfig:
        """The settings, checked."""
        return core.ModelConfig(**self.get_params())

    def fitted(self) -> core.Model:
        """The fitted model as a value."""
        if "fitted_" not in vars(self):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(
                "this AggregateRegressor is not fitted yet; call fit(sets, y_bar) first "
                "(with no sets it gives the prior)"
            )
        return self.fitted_

    # --- predicting ---------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        *,
        groups: Any = None,
        exposure: Any = None,
    ) -> Any:
        """Outputs of individuals: their mean, and on request its uncertainty.

        Counts and amounts are per unit of exposure, and shares are probabilities. If exposures are
        given, they are total counts, amounts and successes.

        Args:
            X: (n, D) array, or a data frame with the columns the model was fitted on.
            return_std: Also return the predictive standard deviation of each individual's y, its
                own noise included; with `include_noise=False`, that of the noise-free output.
            return_cov: Instead, also return the joint (n, n) covariance of these individuals.
            groups: Id of the set that each row belongs to. Members of a measured set are predicted
                given its total, so that they add up to it. A row is the member with the same
                inputs (and exposure); another row of that set is an individual that the total does
                not contain.
            exposure: Of each individual, or its number of trials, for outputs other than numbers.
        """
        if return_std and return_cov:
            raise SettingError("ask for return_std or return_cov, not both")
        if return_cov and groups is not None:
            raise SettingError(
                "return_cov does not work with groups; use return_std, or leave groups out"
            )
        fitted, known = self.fitted(), self._encode(X)
        x, groups = known.x, by_row.aligned(X, groups, "groups")
        e = rows_in.exposures(fitted, exposure, X, len(x))
        if return_cov:
            rows_in.refuse_covariance(fitted, self._recipe, known, "return_cov")
        own = rows_in.members(fitted, groups, x, e) if include_noise else None
        if return_std:
            with Slow("predicting", len(x)) as slow:
                wanted = partial(predictions.predict_individuals, include_noise=include_noise)
                mean, std = wanted(fitted, x, own=own, exposure=e, on_progress=slow.at)
            for rows, some, names, more in rows_in.fill_unknown(self._recipe, known, groups, e):
                each = self.predict(some, True, False, include_noise, groups=names, exposure=more)
                mean[rows], std[rows] = predictions.averaged(each[0], each[1], len(rows))
            return self._outputs(mean), self._outputs(std)
        mean = predictions.predict_mean(fitted, x, own, e)
        for rows, some, names, more in rows_in.fill_unknown(self._recipe, known, groups, e):
            each = self.predict(some, include_noise=include_noise, groups=names, exposure=more)
            mean[rows] = each.reshape(len(rows), -1, mean.shape[1]).mean(axis=1)
        mean = self._outputs(mean)
        if not return_cov:
            return mean
        cov = fitted.posterior.covariance_along(predictions.features_of(fitted, x))
        if include_noise:
            cov[np.diag_indices_from(cov)] += fitted.posterior.individual_noise
        return mean, self._outputs(cov[..., None] * fitted.posterior.output_scale**2)

    def intervals(
        self,
        X: Any,
        level: float = 0.9,
        *,
        groups: Any = None,
        low: float | None = None,
        high: float | None = None,
        exposure: Any = None,
    ) -> Predictions:
        """Outputs of individuals with the interval that should contain a share `level` of them.

        Args:
            groups, exposure: As in `predict`.
            low: The lowest possible output; `high` is the highest. Means are moved within these
                bounds, so that members of a measured total still add up to it. Intervals are cut at
                the bounds.

        Rows of a data frame come back with its columns: `intervals(frame).to_pandas()`.
        """
        found, own = self._intervals(X, level, groups, exposure)
        ends = About(low=low, high=high)
        if not ends.bounded:
            return found
        known = self.fitted().labelled
        overlap = known is None or known.overlap is not None
        kept = [] if known is None or overlap else totals_of(own, known.design.own_scale)
        return within(found, *ends.ends, kept)

    def _intervals(
        self, X: Any, level: float, groups: Any, exposure: Any
    ) -> tuple[Predictions, predictions.Members | None]:
        if not self._one_output:
            raise SettingError("intervals are of one output; use predict with return_std")
        share, known = check_level(level), self._encode(X)
        groups = by_row.aligned(X, groups, "groups")
        e = rows_in.exposures(self.fitted(), exposure, X, len(known.x))
        own = rows_in.members(self.fitted(), groups, known.x, e)
        found = predictions.interval(self.fitted(), known.x, share, own, e)
        for rows, some, names, more in rows_in.fill_unknown(self._recipe, known, groups, e):
            each = self.intervals(some, share, groups=names, exposure=more)
            predictions.average_into(found, rows, each)
        arrays = Encoded, np.ndarray, list, tuple
        frame = None if isinstance(X, arrays) or as_frame(X) is None else X
        return replace(found, frame=frame), own

    def predict_parquet(
        self, pool: Scan, out: str | os.PathLike[str], level: float = 0.9, *, run: Any = None
    ) -> int:
        """Outputs of all individuals in Parquet files, streamed to other Parquet files.

        Args:
            pool: From `Sets.scan_parquet`.
            out: A folder, which is made, for a file per part of the pool; or one file, if it ends
                in .parquet. Rows come in the order of yours: the group columns, the file and the
                row in it (from 1) that they are of, mean, std, lower and upper. Counts, shares and
                amounts are those of the exposures that the pool has as weights, and `rate` (or
                `share`) and `extrapolates` come after them.
            level: Of the interval from lower to upper.
            run: As in `embed`; for a folder.

        Returns:
            The number of individuals.
        """
        share, fitted = check_level(level), self.fitted()
        scan = scan_for(self, pool, fitted)
        return streams.predict(fitted, scan, os.fspath(out), share, run or in_threads)

    def predict_sets(
        self, sets: Sets | Embedded, return_std: bool = False, include_noise: bool = True
    ) -> Any:
        """Totals of sets: their mean, and on request their predictive standard deviation.

        A set that the model was fitted on is predicted given its total: without known noise, that
        is the total itself.
        """
        model = self.fitted()
        known, design = as_sets(sets), sets.pool(model).design  # refuses what is none
        own = predictions.in_common(model, known, design)
        mean, std = predictions.predict_sets(model, design, include_noise=include_noise, own=own)
        return (self._outputs(mean), self._outputs(std)) if return_std else self._outputs(mean)

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int | None = 0,
        include_noise: bool = True,
    ) -> Float[np.ndarray, "..."]:
        """Joint draws of individuals' outputs: (n, n_samples), or (n, M, n_samples)."""
        fitted, known = self.fitted(), self._encode(X)
        rows_in.refuse_covariance(fitted, self._recipe, known, "sample_y")
        x = known.x
        if random_state is not None:
            count(random_state, "random_state", 0)
        count(n_samples, "n_samples", least=0)
        rng = np.random.default_rng(random_state)
        members = fitted.posterior.sample(n_samples, rng)  # L K M
        latent = np.einsum("nk,lkm->nml", predictions.features_of(fitted, x), members)
        if include_noise:
            noise = rng.standard_normal(latent.shape)
            latent = latent + noise * np.sqrt(fitted.posterior.individual_noise)
        scale = fitted.posterior.output_scale
        drawn = predictions.finite_rows(fitted.offset[:, None] + scale[:, None] * latent)
        return drawn[:, 0] if self._one_output else drawn

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        weights: str | None = None,
    ) -> float:
        """R² of the predictions of individuals; with groups, of the totals of groups.

        Totals are predicted as those of groups that were never measured.

        Args:
            y: Outputs of individuals; with groups, totals as in `fit`.
            sample_weight: How much each individual counts; with groups, θ of each row as in `fit`.
            groups: Id of each row's group.
            weights: `"sum"` or `"mean"`, with groups; if left out, as given to `fit`.
        """
        from sklearn.metrics import r2_score

        predicted = self.predict(X)
        if groups is not None:
            known = by_row.groups_of(by_row.aligned(X, groups, "groups"), len(predicted))
            theta = by_row.aligned(X, sample_weight, "sample_weight")
            theta = known.theta(weights or vars(self).get("_weights"), theta)
            at, values = known.match(y, X)
            totals = check_labels(values, [known.ids[a] for a in at])
            said = dict(zip(at.tolist(), totals.tolist(), strict=True))
            learned = vars(self).get("_totals", {})
            rows_in.refuse_cut(self.fitted(), learned, known, said, self._encode(X).x)
            found = np.zeros((len(known.ids), *predicted.shape[1:]))
            np.add.at(found, known.codes, (theta * predicted.T).T)
            return float(r2_score(totals, found.reshape(len(found), -1)[at]))
        if weights is not None:
            raise SettingError("weights goes with groups; give the group of each row as well")
        truth = to_float(y, "y")
        if truth.shape != predicted.shape or not np.isfinite(truth).all():
            raise InvalidSetError(
                f"y has shape {truth.shape}; give a finite number for each prediction, shape "
                f"{predicted.shape}"
            )
        return float(r2_score(truth, predicted, sample_weight=sample_weight))

    def summary(self) -> str:
        """The fitted model in words: what `"auto"` has chosen and why, noise, evidence."""
        return "\n".join(describing.summary(self.fitted(), self.lengthscale, self._recipe))

    @property
    def log_evidence_(self) -> float:
        """log p(totals | λ, β) (Eq. 22), of the totals in your units."""
        value = self.fitted().log_evidence
        if value is None:
            raise SettingError("a dropout network has no evidence in closed form")
        return value

    @property
    def prior_precision_(self) -> Any:
        """λ in your output units; an array if there are several outputs."""
        return self._precision(self.fitted().posterior.hyper.prior_precision)

    @property
    def noise_precision_(self) -> Any:
        """β in your output units: 1/√β is the standard deviation of an individual's noise, without
        the effect that members of its set share."""
        return self._precision(self.fitted().posterior.hyper.noise_precision)

    # --- scikit-learn's conventions -----------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in SETTINGS}

    def set_params(self, **params: Any) -> AggregateRegressor:
        """Change constructor arguments by name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise SettingError(f"no setting is called {name!r}; there are {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags, Tags, TargetTags

        targets = TargetTags(required=True, multi_output=True)
        return Tags(estimator_type="regressor", target_tags=targets, regressor_tags=RegressorTags())

    def get_metadata_routing(self) -> Any:
        """What this estimator asks scikit-learn to route to it, as a `MetadataRequest`."""
        from copy import deepcopy

        from sklearn.utils.metadata_routing import MetadataRequest

        if "_metadata_request" in vars(self):
            return deepcopy(self._metadata_request)
        made = MetadataRequest(owner=type(self).__name__)
        for method, names in REQUESTS.items():
            for name in names:
                getattr(made, method).add_request(param=name, alias=None)
        return made

    def set_fit_request(self, **wanted: bool | str | None) -> AggregateRegressor:
        """Ask scikit-learn to route `groups=True` and other arguments to `fit`."""
        return self._request("fit", wanted)

    def set_predict_request(self, **wanted: bool | str | None) -> AggregateRegressor:
        """Ask scikit-learn to route `groups=True` and other arguments to `predict`."""
        return self._request("predict", wanted)

    def set_score_request(self, **wanted: bool | str | None) -> AggregateRegressor:
        """Ask scikit-learn to route `groups=True` and other arguments to `score`."""
        return self._request("score", wanted)

    def _request(self, method: str, wanted: Mapping[str, Any]) -> AggregateRegressor:
        from sklearn import get_config

        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "metadata routing is off in scikit-learn; call "
                "sklearn.set_config(enable_metadata_routing=True) first"
            )
        for name in wanted:
            if name not in REQUESTS[method]:
                raise TypeError(
                    f"{method} has no argument {name!r} to route; it has "
                    f"{', '.join(REQUESTS[method])}"
                )
        requests = self.get_metadata_routing()
        for name, alias in wanted.items():
            getattr(requests, method).add_request(param=name, alias=alias)
        self._metadata_request = requests
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in vars(self)

    def _repr_html_(self) -> str:
        said = self.summary().splitlines() if self.__sklearn_is_fitted__() else ["Not fitted yet."]
        settings = [(name, repr(value)) for name, value in self.get_params().items()]
        return html.paragraphs([repr(self), *said]) + html.table(("setting", "value"), settings)

    def __repr__(self) -> str:
        defaults = AggregateRegressor().get_params()
        params = self.get_params().items()
        changed = (f"{k}={v!r}" for k, v in params if repr(v) != repr(defaults[k]))
        return f"AggregateRegressor({', '.join(changed)})"

    # --- helpers ------------------------------------------------------------------------------

    def sets_of(self, x: Any) -> Sets:
        """Rows of a table or an array as sets of one individual, as the model sees them."""
        encoded, recipe = self._encode(x), self._recipe
        rows = encoded.x if recipe is None else recipe.filled(encoded)
        known = tuple(range(len(rows))), rows, np.ones(len(rows)), np.arange(len(rows) + 1)
        return Sets(*known, self.fitted().input_names, recipe=recipe)

    def _encode(self, x: Any) -> Encoded:
        return rows_in.encode(x, self.fitted(), self._recipe)

    def _outputs(self, values: Float[np.ndarray, "... M"]) -> Float[np.ndarray, "..."]:
        return values[..., 0] if self._one_output else values

    def _precision(self, inside: float) -> Any:
        values = inside / self.fitted().posterior.output_scale ** 2
        return float(values[0]) if self._one_output else values


def _fitted_attributes(fitted: core.Model, sets: Sets, *, one_output: bool) -> dict[str, Any]:
    """What scikit-learn expects of a fitted estimator, and the model itself."""
    recipe = sets.recipe
    names = sets.input_names if recipe is None else recipe.names
    known: dict[str, Any] = {"fitted_": fitted, "_one_output": one_output, "_recipe": recipe}
    known["n_features_in_"] = sets.n_inputs if recipe is None else len(recipe.names)
    if names is not None:
        known["feature_names_in_"] = np.empty(len(names), dtype=object)
        known["feature_names_in_"][:] = names
    return known


def drawn_for(model: AggregateRegressor, scan: Scan) -> tuple[core.Prepared | None, Scan]:
    """The basis and the recipe that a fitted model brings to a scan; None and the scan if none."""
    drawn: core.Prepared | None = vars(model).get("prepared_")
    return drawn, scan_for(model, scan, drawn)


def scan_for(
    model: AggregateRegressor, scan: Any, known: core.Prepared | core.Model | None
) -> Scan:
    """A scan as a model reads it, which must be of the columns it knows, if it knows any yet."""
    if not isinstance(scan, Scan):
        raise InvalidSetError(f"pool is a {type(scan).__name__}; scan files with Sets.scan_parquet")
    if known is None:
        return scan
    recipe: Recipe | None = vars(model).get("_recipe")
    if recipe is None:
        core.check_inputs(known, len(scan.x), scan.x)
    elif scan.x != recipe.names:
        raise InvalidSetError(
            f"the scan has the inputs {scan.x}; the model knows {recipe.names}, in that order"
        )
    return replace(scan, recipe=recipe)
