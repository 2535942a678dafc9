"""`kill -9` of every command of the shell that writes, at random moments, on both databases.

What a command has printed is stored, and what it was doing is stored whole or not at all; the
studies go on. `make soak` kills ten thousand, half of them on each database.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.reliability.commands import COMMANDS
from tests.reliability.rounds import kill_commands
from tests.reliability.scale import FACTOR
from tests.reliability.watching import start

KILLS = 625 * FACTOR if FACTOR > 1 else 150  # on each database
SOME = ("tell", "tell --from", "pool add", "init, a new file", "storage restore")
FATES = ("not stored", "stored", "said")  # when it was killed


def table(lines):
    """How the killed commands ended."""
    fates, places, acknowledged = Counter(), Counter(), 0
    for line in lines:
        fates[line["command"], line["fate"]] += 1
        places[line["at"]] += 1
        acknowledged += line["acknowledged"]
    rows = ["| command | killed | before it was stored | stored, not yet said | said |"]
    for name in [*COMMANDS, "serve"]:
        each = [fates[name, fate] for fate in FATES]
        if sum(each):
            rows.append(f"| {name} | {sum(each)} | {' | '.join(map(str, each))} |")
    each = [sum(n for (_, fate), n in fates.items() if fate == one) for one in FATES]
    rows.append(f"| all | {sum(each)} | {' | '.join(map(str, each))} |")
    return "\n".join([*rows, f"{acknowledged} acknowledged, last seen {dict(places)}"])


def spree(place, folder, n, only=(), seed=0):
    lane = start(kill_commands, place, str(folder), seed, n, only)
    while not lane.said or lane.said[-1]["stage"] != "done":
        heard = lane.listen(seconds=120.0)
        assert heard is not None, "nothing was killed for two minutes"
    lane.process.join()
    killed = [line for line in lane.said if line["stage"] == "killed"]
    assert len(killed) == n
    return killed


def test_a_killed_command_is_done_whole_or_not_at_all(tmp_path):
    killed = spree("", tmp_path, 24, SOME)
    assert len({line["fate"] for line in killed}) > 1


@pytest.mark.slow
def test_a_killed_command_is_done_whole_or_not_at_all_whatever_it_is(place, tmp_path):
    killed = spree(place, tmp_path, KILLS)
    print(f"{place.partition(':')[0]}:\n{table(killed)}")
    fates = Counter(line["fate"] for line in killed)
    assert min(fates[fate] for fate in FATES) > KILLS / 50
