"""The labelling page in a real browser."""

HOW = "get Chromium and axe-core with scripts/browser (or make browser)"

# Milliseconds, for machines that are busy: a test waits for what has to happen, not for how soon.
# How soon is measured by `python -m benchmarks web`.
PATIENCE = 90_000
