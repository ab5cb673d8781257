"""The benchmark runs, counts right, and says what it could not do; no figure is judged here."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import drain, field, machine, marks, page, plot, report, targets
from benchmarks.__main__ import MEASUREMENTS
from benchmarks.case import Options
from benchmarks.contestant import ROOT, Contestant
from benchmarks.peers import gather
from benchmarks.peers.build import NotBuilt
from benchmarks.peers.catalogue import ALL
from benchmarks.run import Failed

HANDLER, RAW = field.HANDLER.name, field.RAW_BATCH.name


def run_of(measurement: str, row: str, **figures: float) -> dict[str, Any]:
    return {"measurement": measurement, "row": row, "figures": {"foreign": 0.0, **figures}}


def results(*runs: dict[str, Any], **peers: str) -> dict[str, Any]:
    return {
        "about": {
            "date": "2030-01-01",
            "machine": "2 shared cores",
            "server": "Redis 7.0.15",
            "versions": {"redis": "8.1"},
            "options": {"repeat": 3},
        },
        "measurements": list(dict.fromkeys(run["measurement"] for run in runs)),
        "peers": peers,
        "runs": list(runs),
    }


def bench(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the command with tiny numbers, as a stranger does; what it left in its file."""
    out = folder / "figures.json"
    tiny = ("--jobs", "200", "--repeat", "1", "--pings", "5", "--idle-seconds", "0.2", "--sizes", "100")
    command = [sys.executable, "-m", "benchmarks", *arguments, *tiny, "--memory-jobs", "200", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().rpartition("\n\n")[2].startswith("To reach\n")
    found: dict[str, Any] = json.loads(out.read_text())
    assert [run for run in found["runs"] if "failed" in run] == []
    return found


@pytest.mark.slow
def test_a_drain_is_measured_for_ours_and_the_raw_loop(tmp_path: Path) -> None:
    busy = f"{HANDLER}, 1 ms of CPU"
    table = report.medians(bench(tmp_path, "drain", "--only", f"1 ms of CPU,{RAW}"), "drain")
    assert set(table) == {busy, RAW}
    assert all(row["1 process"] > 0 and row["2 processes"] > 0 for row in table.values())
    assert table[busy]["_worker processes seen, 1 process"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "row", "column"),
    [
        ("enqueue", HANDLER, "one by one"),
        ("latency", field.TASK.name, "p50, 1 idle worker"),
        ("idle", HANDLER, "memory, MB"),
        ("cost", field.TASK.name, "commands within, run"),
        ("growth", "100 dead", "claim and complete"),
        ("memory", HANDLER, "after 200"),
    ],
)
def test_each_other_measurement_gives_figures(tmp_path: Path, name: str, row: str, column: str) -> None:
    table = report.medians(bench(tmp_path, name, "--only", row), name)
    assert list(table) == [row]
    assert table[row][column] > 0


@pytest.mark.slow
def test_the_orm_is_measured_on_sqlite(tmp_path: Path) -> None:
    found = bench(tmp_path, "orm", "--only", "1 thread", "--databases", "sqlite")
    assert report.medians(found, "orm")["echomq-django, 1 thread"]["sqlite"] > 0


@pytest.mark.slow
def test_a_worker_that_dies_is_said_with_the_end_of_its_log(tmp_path: Path) -> None:
    broken = Contestant("broken", "benchmarks.raw_bare", ("python", "-c", "raise SystemExit('no such queue')"))
    with pytest.raises(Failed, match=r"a worker ended with 1: .*no such queue"):
        drain.drain(broken, 1, 10, 1.0)


def test_jobs_are_counted_over_all_threads_and_wait_for_the_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = marks.Marks(tmp_path / "marks")
    monkeypatch.setenv("BENCH_MARKS", str(file.path))
    monkeypatch.setattr(marks, "_map", None)
    job = marks.argument(1, sent=marks._now())
    threads = [threading.Thread(target=lambda: [marks.hit(job) for _ in range(100)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert file.tally().calls == 0
    file.open_gate()
    for thread in threads:
        thread.join()
    os.close(marks._samples)
    tally = file.tally()
    assert (tally.calls, tally.pids) == (300, {os.getpid()})
    assert tally.rate == pytest.approx(299e9 / (tally.latest - tally.first))
    assert len(file.samples()) == 300
    assert min(file.samples()) > 0


def test_what_this_process_uses_is_not_foreign() -> None:
    watch = machine.Watch()
    marks.burn(200_000)
    everything = machine._busy() - watch._busy
    assert watch.foreign() * machine.CORES * (machine.time.monotonic() - watch._began) <= everything - 0.15


def test_a_figure_is_the_median_of_its_runs() -> None:
    runs = [run_of("drain", HANDLER, **{"1 process": value}) for value in (1.0, 9.0, 2.0)]
    assert report.medians(results(*runs), "drain") == {HANDLER: {"1 process": 2.0, "foreign": 0.0}}


@pytest.mark.parametrize(("handler", "verdict"), [(300.0, "met"), (299.0, "NOT MET")])
def test_a_ratio_is_met_or_not(handler: float, verdict: str) -> None:
    found = results(
        run_of("drain", HANDLER, **{"1 process": handler}), *(
            run_of("drain", name, **{"1 process": rate}) for name, rate in (("ardiq", 100.0), ("rq", 10.0))
        ), ardiq="1.0", rq="1.0",
    )  # fmt: skip
    [line] = [line for line in targets.lines(found) if "/ the fastest peer ≥ 3" in line]
    assert line.split("  ")[0] == verdict


def test_what_was_not_measured_is_said() -> None:
    said = list(targets.lines(results(run_of("drain", HANDLER, **{"1 process": 1.0}))))
    assert [line for line in said if line.startswith(("met", "NOT MET"))] == []
    assert sum(line.startswith("not measured") for line in said) == len(targets.ASKED) + len(targets.TO_REACH)


def test_others_on_the_machine_are_said() -> None:
    found = results(run_of("drain", HANDLER, foreign=0.5), run_of("drain", RAW, foreign=0.01))
    assert "at most 50%); more than 10% in 1 runs." in "\n".join(report.crowding(found))


def test_a_peer_that_cannot_be_built_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(peer: object) -> Path:
        raise NotBuilt("no wheel for this Python")

    monkeypatch.setattr(gather, "build", refuse)
    assert gather.gather("huey") == ((), {"huey": "cannot be built here: no wheel for this Python"})


def test_an_unknown_peer_is_an_error() -> None:
    with pytest.raises(ValueError, match="no peer is called hue; there are ardiq, arq"):
        gather.gather("hue")


def test_each_peer_has_its_module_and_each_module_its_peer() -> None:
    folder = ROOT / "benchmarks" / "peers"
    frame = {"__init__", "build", "catalogue", "gather", "django_settings"}
    assert {path.stem for path in folder.glob("*.py")} - frame == {peer.module for peer in ALL}


def test_the_page_and_its_plot_are_written_from_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = tmp_path / "performance.md"
    paper.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", paper)
    monkeypatch.setattr(page, "PLOT", tmp_path / "plot.svg")
    found = results(run_of("drain", HANDLER, **{"1 process": 12345.0}), ardiq="ardiq 1.2.0")
    page.write(found, {"drain": drain.TITLE})
    text = paper.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{page.BEGIN}\n")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "old" not in text
    assert f"| {HANDLER} | 12,345 |" in text
    assert "| ardiq | ardiq 1.2.0 | at least once |" in text
    drawn = ElementTree.parse(tmp_path / "plot.svg").getroot()
    assert [each.text for each in drawn if each.tag.endswith("text")][1:] == [HANDLER, "12,345"]


def test_the_committed_page_can_be_written() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert 0 < text.index(page.BEGIN) < text.index(page.END)


def test_bars_are_as_long_as_their_figures() -> None:
    drawn = ElementTree.fromstring(plot.svg({"slow": {"1 process": 50.0}, "fast": {"1 process": 100.0}}))
    fast, slow = (float(each.get("width", 0)) for each in drawn if each.tag.endswith("rect"))
    assert fast == pytest.approx(2 * slow, abs=0.2)


def test_every_peer_is_in_every_measurement_that_compares() -> None:
    peer = Contestant("a peer", "benchmarks.peers.none", ("none",))
    for name in ("drain", "enqueue", "latency", "idle"):
        assert "a peer" in {case.row for case in MEASUREMENTS[name].cases(Options(peers=(peer,)))}
