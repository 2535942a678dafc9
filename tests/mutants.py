"""Break the code on purpose and see a test fail: `make mutants`.

Each mutant is one edit of one line in a copy of the sources; the property tests must notice. A
mutant that survives is a hole in the tests, and makes this exit with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ["tests/properties", "tests/model/test_basis.py", "tests/learning/test_learner.py"]
TESTS += ["tests/learning/test_estimator.py", "tests/learning/test_members.py"]
TESTS += ["tests/model/test_curves.py", "tests/data/test_inputs.py", "tests/model/generalised"]
TESTS += ["tests/study/test_at_once.py", "tests/reliability/test_flushes.py"]
TESTS += ["tests/outofcore/test_design_store.py", "tests/study/test_export_refusals.py"]

# name, file, what is there, what to put instead
MUTANTS = [
    (
        "θ in place of θ²",
        "model/design.py",
        "np.add.reduceat(sets.theta**2, first)",
        "np.add.reduceat(abs(sets.theta), first)",
    ),
    ("no θ in u", "model/design.py", "theta[low:high, None] * phi", "1.0 * phi"),
    ("missing 1/s in rows", "model/posterior.py", "svd(design.u / root,", "svd(design.u * 1.0,"),
    (
        "missing 1/s in labels",
        "model/posterior.py",
        "target = y_bar / root",
        "target = y_bar * 1.0",
    ),
    (
        "transposed basis",
        "model/posterior.py",
        "spectrum.directions.T @ (gain",
        "spectrum.directions @ (gain",
    ),
    (
        "no unseen variance",
        "model/posterior.py",
        "+= unseen / self.hyper.prior_precision",
        "+= 0 * unseen",
    ),
    (
        "missing s in AggMI",
        "acquisition/information.py",
        "_information(signal / noise, posterior)",
        "_information(signal * posterior.noise_precision, posterior)",
    ),
    (
        "no noise in AggEnt",
        "acquisition/information.py",
        "_entropy(noise + signal_variance",
        "_entropy(0 * noise + signal_variance",
    ),
    (
        "missing s in MI",
        "acquisition/information.py",
        "_information(signal / posterior.noise(pool.design), posterior)",
        "_information(signal * posterior.noise_precision, posterior)",
    ),
    ("Var by N", "acquisition/baselines.py", " / np.maximum(sizes - 1, 1)", " / sizes"),
    (
        "sign of a gradient",
        "model/evidence.py",
        "(by_prior - stiffness * away_prior,",
        "(-by_prior - stiffness * away_prior,",
    ),
    (
        "no noise in gradient",
        "model/evidence.py",
        "pull_all * noise - stiffness * away_noise",
        "pull_all - stiffness * away_noise",
    ),
    ("forgotten log s", "model/evidence.py", "outputs * spectrum.log_noise_scale)", "0.0)"),
    ("forgotten zero eigenvalues", "model/evidence.py", "    if rest:", "    if False:"),
    ("Adam downhill", "model/kernels.py", "= -0.5 * by_prior,", "= 0.5 * by_prior,"),
    ("Adam without bias correction", "model/kernels.py", "rate / (1.0 - decay_first)", "rate"),
    ("sine series cut short", "model/kernels.py", "_S13 + z * tail", "_S13"),
    (
        "scale forgotten in std",
        "model/predict.py",
        "finite_rows(scale * np.sqrt",
        "finite_rows(np.sqrt",
    ),
    (
        "offset without Σθ",
        "model/scaling.py",
        "left = y_bar - design.theta_sum[:, None] * offset",
        "left = y_bar - offset",
    ),
    ("tie to the last", "acquisition/screening.py", "abs(top)][0])", "abs(top)][-1])"),
    (
        "asks a labelled set",
        "learning/propose.py",
        "[*self.answered, *self.claimed",
        "[*self.claimed",
    ),
    (
        "batch is top-k",
        "learning/propose.py",
        "left, posterior = given_questions(left, posterior, pending)",
        "pass",
    ),
    (
        "effects of overlapping sets are not shared",
        "model/mixture_algebra.py",
        "(1 - rho) * same + rho * together",
        "(1 - rho) * same",
    ),
    (
        "known noise is asked for",
        "acquisition/known_noise.py",
        "design.u - white @ u)",
        "design.u)",
    ),
    (
        "open questions share no noise",
        "acquisition/known_noise.py",
        "across -= pool.explained @ pool.explained[which].T",
        "pass",
    ),
    (
        "start of Adam in former units",
        "model/fit.py",
        "np.exp(2 * np.log(scale /",
        "np.exp(0 * np.log(scale /",
    ),
    ("cold start of Adam", "learning/algorithm.py", "answers[:n], fitted)", "answers[:n])"),
    (
        "stale scores in a batch",
        "acquisition/batches.py",
        "signal -= (u @ forward) ** 2",
        "signal -= 0 * (u @ forward) ** 2",
    ),
    (
        "no effect of sets in totals",
        "model/mixture_algebra.py",
        "noise = (1 - rho) * design.noise_scale + rho * design.effect_scale",
        "noise = (1 - 0 * rho) * design.noise_scale",
    ),
    (
        "Σθ in place of its square",
        "model/mixture_algebra.py",
        "rho * design.effect_scale\n    noise",
        "rho * np.sqrt(design.effect_scale)\n    noise",
    ),
    (
        "forgotten known noise",
        "model/mixture_algebra.py",
        "noise = noise + totals.noise_std**2 / scale[:, None]",
        "pass",
    ),
    (
        "members without their effect",
        "model/mixture.py",
        "share * ((1 - rho) * own[0] + rho * own[1])",
        "share * (1 - rho) * own[0]",
    ),
    (
        "members as if new, from K×K matrices",
        "model/mixture.py",
        "found = found + shared @ solved.weights[h]",
        "pass",
    ),
    (
        "no spread between hypotheses",
        "model/mixture.py",
        "spread = (each - mean) ** 2 + within[:, None] * self.spread[h]",
        "spread = 0 * each + within[:, None] * self.spread[h]",
    ),
    (
        "normal tails",
        "model/mixture.py",
        "return self.scale * (self.freedom / (self.freedom - 2) if",
        "return self.scale * (1.0 if",
    ),
    (
        "left out, weighed by all",
        "model/mixture_leave_one_out.py",
        "logs = known + logs + (CAUTION - 1) * (",
        "logs = known + 0 * (",
    ),
    (
        "left out under known noise, a power of s forgotten",
        "model/mixture_leave_one_out.py",
        "0.5 * (gone / scale + np.log(scale))",
        "0.5 * (gone / scale)",
    ),
    (
        "no prior of s² under known noise",
        "model/mixture_weights.py",
        "logs[:, i] = -0.5 * (PRIOR_FREEDOM * at + prior * math.exp(-at))",
        "logs[:, i] = 0.0",
    ),
    (
        "few steps to a quantile",
        "model/student_quantiles.py",
        "for count in range(STEPS):",
        "for count in range(2):",
    ),
    (
        "members without θ",
        "model/predict.py",
        "pull[own.row] = own.theta / known.noise_scale[own.total]",
        "pull[own.row] = 1 / known.noise_scale[own.total]",
    ),
    (
        "members in the wrong order",
        "model/predict.py",
        "found[n] = same.pop() if same else -1",
        "found[n] = same.pop(0) if same else -1",
    ),
    (
        "known noise says something of members",
        "acquisition/prediction.py",
        "pool.design.own_scale * own**2",
        "pool.design.noise_scale * own**2",
    ),
    (
        "no direct term",
        "acquisition/prediction.py",
        "drop += of_members(",
        "0 * of_members(",
    ),
    (
        "evidence without its power",
        "model/mixture_weights.py",
        "logs = logs + (CAUTION - 1) * whole[origin]",
        "pass",
    ),
    (
        "points of a grid are hypotheses of their own",
        "model/mixture_weights.py",
        "np.exp(scale)[:, None], math.inf, count, origin)",
        "np.exp(scale)[:, None], math.inf, count, np.arange(len(scale)))",
    ),
    (
        "waves that are not centred in compiled sums",
        "model/kernels.py",
        "(whole[k] + total[k]) - centre[k] * bias",
        "(whole[k] + total[k])",
    ),
    (
        "inputs alike by chance",
        "data/targets.py",
        "np.maximum(between - (runs - 1) * within, 0.0)",
        "np.maximum(between, 0.0)",
    ),
    (
        "curves of twice the length-scale",
        "model/basis/auto.py",
        "(CURVE_LENGTHSCALE * unit / 2) ** 2",
        "(CURVE_LENGTHSCALE * unit) ** 2",
    ),
    (
        "counts without exposure",
        "model/generalised/likelihoods.py",
        "each = eta + np.log(measured.exposure)",
        "each = eta + 0 * np.log(measured.exposure)",
    ),
    (
        "Σp in place of Σp² in the dispersion",
        "model/generalised/likelihoods.py",
        "return alpha[:, None] * squares, turn",
        "return alpha[:, None] * np.sqrt(squares), turn",
    ),
    (
        "dispersion that does not change with w",
        "model/generalised/likelihoods.py",
        "turn = 2 * alpha[:, None] * share * (share - measured.spread(squares))",
        "turn = 0 * share",
    ),
    (
        "Stirling without its half",
        "model/generalised/likelihoods.py",
        "value = (end - 0.5) * grown - y",
        "value = end * grown - y",
    ),
    (
        "shares without trials",
        "model/generalised/likelihoods.py",
        "mean, slope = trials * sigmoid(eta), trials * _sigmoid_slope(eta)",
        "mean, slope = trials * sigmoid(eta), 1.0 * _sigmoid_slope(eta)",
    ),
    (
        "no second term of the saddlepoint",
        "model/generalised/likelihoods.py",
        "height = 0.5 * np.log(equal / k2) + MOST_SECOND * bounded",
        "height = 0.5 * np.log(equal / k2)",
    ),
    (
        "posterior without effects of sets",
        "model/generalised/laplace.py",
        "c[:, at, at] += priors.effect[:, None] + 1 / here.information",
        "c[:, at, at] += 1 / here.information",
    ),
    (
        "mode in place of the mean",
        "model/generalised/laplace.py",
        "part = 1 / np.sqrt(np.maximum(1.0, length))[:, None]",
        "part = 0 / np.sqrt(np.maximum(1.0, length))[:, None]",
    ),
    (
        "evidence without the prior's volume",
        "model/generalised/laplace.py",
        "logs = logs + np.log(np.diagonal(white, axis1=1, axis2=2)).sum(axis=1)",
        "pass",
    ),
    (
        "rows of questions without exposure",
        "model/generalised/tangent.py",
        "slope = e * known.slope(eta)",
        "slope = known.slope(eta)",
    ),
    (
        "targets in the user's units",
        "model/generalised/tangent.py",
        "return phi * (slope / np.sqrt(known.spread(centre)))[:, None]",
        "return phi * slope[:, None]",
    ),
    (
        "noise of questions without κ",
        "model/generalised/tangent.py",
        "model.dispersion * squares / slope**2) + model.effect",
        "model.dispersion * squares / slope**2)",
    ),
    (
        "weights of nodes",
        "model/nonlinear.py",
        "((0.0, 2 / 3), (3**0.5, 1 / 6), (-(3**0.5), 1 / 6))",
        "((0.0, 1 / 3), (3**0.5, 1 / 6), (-(3**0.5), 1 / 6))",
    ),
    (
        "members in proportion to their means",
        "model/generalised/predict.py",
        "        if alpha <= POISSON:",
        "        if True:",
    ),
    (
        "members that do not add up",
        "model/generalised/predict.py",
        "rest = total / np.where(found > 0, found, 1.0)",
        "rest = 1.0 + 1e-6 * total",
    ),
    (
        "effects of other sets forgotten",
        "model/generalised/predict.py",
        "variances += found.priors.effect[:, None] * new * noise",
        "pass",
    ),
    (
        "quantiles from a comb of nodes",
        "model/generalised/predict.py",
        "np.flatnonzero(variance > NARROW**2 * own)",
        "np.flatnonzero(variance > 0)",
    ),
    (
        "all binomial variance left to members",
        "model/generalised/predict.py",
        "_unequal(eta, e, 1 - share, level)",
        "_unequal(eta, e, 1 - 0 * share, level)",
    ),
    (
        "known noise of forecasts in the user's units",
        "learning/left_out.py",
        "noise = noise_std / float(scaled_by.output_scale[0])",
        "noise = noise_std",
    ),
    (
        "known noise of answers left out in the user's units",
        "model/leave_one_out.py",
        "design.with_known_noise(noise_std / float(scale[0]), hyper",
        "design.with_known_noise(noise_std, hyper",
    ),
    (
        "targets that all count alike in the mean variance",
        "learning/status.py",
        "(phi * pool.targets.weight[:, None]).T @ phi",
        "phi.T @ phi / len(phi)",
    ),
    (
        "targets that all count alike in what is known of them",
        "learning/gain.py",
        "return targets.x, targets.weight, np",
        "return targets.x, np.full(len(targets.x), 1 / len(targets.x)), np",
    ),
    (
        "many targets thinned as if they counted alike",
        "data/targets.py",
        "    ends = np.cumsum(weight)",
        "    ends = np.cumsum(np.ones(len(x)))",
    ),
    (
        "EPIG of one output",
        "acquisition/prediction.py",
        "-0.5 * posterior.n_outputs * gain",
        "-0.5 * gain",
    ),
    (
        "IVR of one output",
        "acquisition/prediction.py",
        "float((posterior.output_scale**2).mean()), LARGEST",
        "float(posterior.output_scale[0] ** 2), LARGEST",
    ),
    (
        "a set that spans batches keeps its last",
        "outofcore/embed_part.py",
        "mine[0] += before[0]",
        "mine[0] = before[0]",
    ),
    (
        "a set that spans parts keeps its last row",
        "outofcore/build.py",
        "shared[at] = shared.get(at, 0.0) + edge",
        "shared[at] = edge",
    ),
    (
        "a set that spans parts keeps its last sums",
        "outofcore/build.py",
        "sums[:, first : first + count] += part",
        "sums[:, first : first + count] = part",
    ),
    (
        "a sample that begins anew in each batch",
        "outofcore/index.py",
        "-batch.first_individual % step :: step",
        "::step",
    ),
    (
        "bounds kept under known noise",
        "learning/algorithm.py",
        "moves = noisy or model",
        "moves = model",
    ),
    (
        "bounds kept after a network has learned",
        "learning/algorithm.py",
        "pool=with_squares(known), ceiling=None)",
        "pool=with_squares(known))",
    ),
    (
        "changes without the lock, in PostgreSQL",
        "study/storage/transactions.py",
        "records.state(connection, record, lock=True)",
        "records.state(connection, record, lock=False)",
    ),
    (
        "changes without the lock, in SQLite",
        "study/storage/database.py",
        "execution_options(sumwise_writes=True)",
        "execution_options(sumwise_writes=False)",
    ),
    (
        "files that are not flushed",
        "util/files.py",
        "            file.flush()\n            os.fsync(file.fileno())",
        "            file.flush()",
    ),
    (
        "names in an export that are not flushed",
        "study/export.py",
        "        sync_folder(unfinished)\n",
        "        pass\n",
    ),
    (
        "the name of an export that is not flushed",
        "study/export.py",
        "        sync_folder(place.parent)\n",
        "        pass\n",
    ),
    (
        "rows of a design that are not flushed",
        "outofcore/build.py",
        "            os.fsync(out.fileno())",
        "            pass",
    ),
    (
        "individuals of a design that are not flushed",
        "outofcore/build.py",
        "        os.fsync(file.fileno())",
        "        pass",
    ),
    (
        "rows that a design grows by are not flushed",
        "outofcore/grow.py",
        "        os.fsync(file.fileno())",
        "        pass",
    ),
    (
        "the name of a design that is not flushed",
        "outofcore/build.py",
        "    sync_folder(os.path.dirname(home))",
        "    pass",
    ),
    (
        "amended values that come back from a file",
        "study/storage/transactions.py",
        'kinds = ("told", "amended", "retracted")',
        'kinds = ("told", "retracted")',
    ),
    (
        "planned noise forgotten when a correction is judged",
        "web/session.py",
        "0.0 if planned is None else planned[position]",
        "0.0",
    ),
    (
        "claims that ended otherwise logged as expired",
        "study/storage/transactions.py",
        "            if self._drop(claims, claim.position):\n                self._log(",
        "            if self._drop(claims, claim.position) or True:\n                self._log(",
    ),
    (
        "imports that take any setting",
        "model/fit.py",
        "if not isinstance(given := getattr(self, name), bool | np.bool_):",
        "if (given := getattr(self, name)) is None:",
    ),
]


def survives(file: str, old: str, new: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests", "scripts", "pyproject.toml"):
            source, ignored = ROOT / part, shutil.ignore_patterns("__pycache__")
            if source.is_dir():
                shutil.copytree(source, copy / part, ignore=ignored)
            else:
                shutil.copy(source, copy / part)
        path = copy / "src" / "sumwise" / file
        text = path.read_text()
        path.write_text(text.replace(old, new))
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "src")},
            capture_output=True,
            check=False,
        )
        return run.returncode == 0


def main() -> None:
    for name, file, old, _ in MUTANTS:
        count = (ROOT / "src" / "sumwise" / file).read_text().count(old)
        if count != 1:
            sys.exit(f"{name}: {file} has {old!r} {count} times; bring the mutant up to date")
    if not survives("model/design.py", "def embed(", "def embed("):
        sys.exit("the tests fail on the unbroken code; mend that first")
    survivors = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        fates = threads.map(lambda mutant: survives(*mutant[1:]), MUTANTS)
        for (name, *_), alive in zip(MUTANTS, fates, strict=True):
            survivors += [name] * alive
            print(f"{'SURVIVED' if alive else 'killed':9} {name}", flush=True)
    print(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} mutants killed")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
