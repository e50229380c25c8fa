"""How long jobs ask for and how early they are warned: named, measured, the site's, and under a maintenance."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import orjson
import pytest

from cluster.backend import JobState, LaunchRequest, Needs, Resources
from cluster.batch_file import batch_payload
from cluster.fake_slurm.control import FakeSlurm
from cluster.slurm import script
from cluster.slurm.commands import Commands
from cluster.slurm.limits import Partition, minutes_of, partitions
from cluster.slurm.profile import Profile
from cluster.slurm.time_limit import TimeLimit, time_limit
from cluster.submitit_backend import SlurmBackend

NOWHERE = Partition()
WORK = Resources(needs=Needs(minutes=240, least_minutes=20, lead_s=150))


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90), ("1:30", 2), ("01:00:00", 60), ("1:30:01", 91), ("2-12", 3600), ("7-00:00:00", 10080),
        ("1-00:30", 1470), ("UNLIMITED", None), ("NONE", None), ("INFINITE", None), ("0", None), ("n/a", None),
    ],
)  # fmt: skip
def test_durations_as_slurm_writes_them(text: str, minutes: int | None) -> None:
    assert minutes_of(text) == minutes


def test_partitions_are_read_with_the_sites_own_choice() -> None:
    found = partitions(
        "PartitionName=gpu AllowGroups=ALL Default=NO DefaultTime=NONE MaxTime=1-00:00:00 State=UP\n"
        "PartitionName=cpu AllowGroups=ALL Default=YES DefaultTime=01:00:00 MaxTime=UNLIMITED State=UP\n"
    )
    assert found["gpu"] == Partition("gpu", 1440, 1440)
    assert found[""] == found["cpu"] == Partition("cpu", None, 60)


@pytest.mark.parametrize(
    ("resources", "profile", "partition", "minutes", "source"),
    [
        (Resources(), Profile(), NOWHERE, None, "the partition"),
        (Resources(), Profile(minutes=60), NOWHERE, 60, "the site profile"),
        (WORK, Profile(), NOWHERE, 240, "from measured speed"),
        (WORK, Profile(minutes=600), NOWHERE, 240, "from measured speed"),
        (WORK, Profile(minutes=60), NOWHERE, 60, "the most there is; 240 min"),
        (WORK, Profile(), Partition("gpu", 120, 120), 120, "the most there is; 240 min"),
        (Resources(minutes=30, needs=WORK.needs), Profile(minutes=60), NOWHERE, 30, "resources.minutes"),
        (Resources(extra=(("time", "3-0"),), needs=WORK.needs), Profile(), NOWHERE, 4320, "resources.extra.time"),
    ],
)
def test_whose_word_a_limit_is(
    resources: Resources, profile: Profile, partition: Partition, minutes: int | None, source: str
) -> None:
    found = time_limit(resources, profile, partition, None)
    assert found.minutes == minutes
    assert found.source.startswith(source)
    assert found.notes == ()


@pytest.mark.parametrize(
    ("resources", "left", "minutes", "note"),
    [
        (WORK, 600, 240, ""),
        (WORK, 100.5, 95, "shortened from 240 min to 95"),
        (WORK, 25, 20, "shortened"),
        (WORK, 24, 240, "too soon for one checkpoint interval (20 min)"),
        (Resources(minutes=240, needs=WORK.needs), 100, 240, "unless they ask for 95 or less"),
        (Resources(), 100, 95, "shortened from no limit to 95"),
        (Resources(), 19, None, "too soon for one checkpoint interval (15 min)"),
    ],
)
def test_a_maintenance_shortens_what_nobody_named(
    resources: Resources, left: float, minutes: int | None, note: str
) -> None:
    found = time_limit(resources, Profile(), NOWHERE, left)
    assert found.minutes == minutes
    assert note in "; ".join(found.notes)
    assert bool(note) == bool(found.notes)


def test_a_partitions_own_default_is_fitted_too() -> None:
    partition = Partition("gpu", 1440, 60)
    assert time_limit(Resources(), Profile(), partition, 600).minutes is None
    assert time_limit(Resources(), Profile(), partition, 50).minutes == 45


def test_a_named_limit_beyond_the_partitions_is_told() -> None:
    (note,) = time_limit(Resources(minutes=300), Profile(), Partition("gpu", 120, 60), None).notes
    assert "partition gpu gives at most 120" in note


@pytest.mark.parametrize(
    ("resources", "profile", "lead", "source"),
    [
        (Resources(minutes=1), Profile(), 30, "half of a short limit"),
        (Resources(minutes=60), Profile(), 120, "the site's"),
        (Resources(), Profile(lead_s=300), 300, "the site's"),
        (Resources(minutes=600, extra=(("lead_s", "900"),)), Profile(), 900, "resources.extra.lead_s"),
        (WORK, Profile(), 150, "measured saves"),
        (WORK, Profile(lead_s=200), 200, "the site's; measured saves need less"),
    ],
)
def test_whose_word_a_lead_is(resources: Resources, profile: Profile, lead: int, source: str) -> None:
    found = time_limit(resources, profile, NOWHERE, None)
    assert (found.lead_s, found.lead_source) == (lead, source)
    assert found.notes == ()
    assert "lead_s" not in script.parameters(resources, profile)["additional_parameters"]


def test_a_lead_that_measured_saves_do_not_fit_into_is_told() -> None:
    hand = Resources(minutes=600, extra=(("lead_s", "60"),), needs=WORK.needs)
    assert time_limit(hand, Profile(), NOWHERE, None).notes == (
        "a warning 60 s before the limit is too short: measured saves need 150 s",
    )
    assert "too short" in time_limit(Resources(minutes=4, needs=WORK.needs), Profile(), NOWHERE, None).notes[0]


class Site:
    """A Slurm backend on a fake cluster whose jobs are not executed."""

    def __init__(self, folder: Path, slurm: FakeSlurm, profile: Profile | None = None) -> None:
        slurm.switch(execute=False)
        self.folder, self.slurm = folder / "submissions", slurm
        commands = Commands(looks_per_minute=6000, orders_per_minute=6000)
        self.backend = SlurmBackend(profile or Profile(), submissions=self.folder, commands=commands)

    def submit(self, resources: Resources) -> tuple[str, str]:
        """(``--time``, ``--signal``) of the job; its state is looked at with ``report``."""
        directory = self.folder / "b1"
        directory.mkdir(parents=True)
        request = LaunchRequest("orc-p0-a1", ("true",), "/", "/dev/null", str(directory / "r"), resources=resources)
        (directory / "batch.json").write_bytes(orjson.dumps(batch_payload("b1", [request])))
        (self.handle,) = self.backend.submit(str(directory), [request])
        (spec,) = self.slurm.state["specs"].values()
        return str(spec["options"].get("time")), str(spec["options"]["signal"])

    def maintenance(self, minutes: float) -> None:
        start = self.slurm.now() + 60 * minutes
        self.slurm.configure(Maintenance={"upgrade": [start, start + 7200]})


def test_a_script_asks_for_what_is_proposed(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.configure(MaxTime=120)
    assert Site(tmp_path, slurm).submit(WORK) == ("120", "B:USR2@150")


def test_a_job_starts_before_a_maintenance_where_a_checkpoint_fits(tmp_path: Path, slurm: FakeSlurm) -> None:
    site = Site(tmp_path, slurm)
    site.maintenance(100)
    asked, _ = site.submit(WORK)
    assert 90 <= int(asked) <= 95
    assert site.backend.poll([site.handle])[site.handle].state is JobState.RUNNING


def test_a_job_that_waits_for_a_maintenance_says_so(tmp_path: Path, slurm: FakeSlurm) -> None:
    site = Site(tmp_path, slurm)
    site.maintenance(15)
    assert site.submit(WORK)[0] == "240"
    report = site.backend.poll([site.handle])[site.handle]
    assert report.state is JobState.QUEUED
    assert "reaches into the maintenance upgrade" in report.reason
    assert "a checkpoint interval must fit" in report.reason


def test_a_controller_that_is_away_leaves_the_proposal(tmp_path: Path, slurm: FakeSlurm) -> None:
    slurm.switch(controller_down=True)
    found = Site(tmp_path, slurm).backend.limit_of(WORK)
    assert isinstance(found, TimeLimit)
    assert (found.minutes, found.lead_s) == (240, 150)


# Whole sweeps


def test_a_run_longer_than_its_proposed_limit_finishes_over_several_jobs(
    proof: ModuleType, slurm: FakeSlurm, tmp_path: Path
) -> None:
    slurm.configure(MaxTime=1, DefaultTime=1)
    sweep = proof.Sweep(tmp_path / "s", packs=1, members=1, steps=60, shape={"stack_key": "toy", "steps": 60})
    loop = sweep.start()
    sweep.until(loop, lambda _: sweep.begun() == 1)
    slurm.end(f"{sweep.array()}_0", "NODE_FAIL")  # the next attempt is handed over anew, with what was measured
    sweep.until(loop, lambda _: sweep.begun() == 2)
    scripts = sorted(sweep.workspace.submissions.glob("*/array-0.sh"), key=lambda path: path.stat().st_mtime)
    assert ["--time=1" in script.read_text() for script in scripts] == [False, True]
    for begun in (2, 3):  # each job is warned half a minute before its limit, saves and is queued again
        sweep.until(loop, lambda _, begun=begun: sweep.begun() == begun)
        slurm.advance(35)
    sweep.finish(loop)
    assert len(sweep.attempts()) >= 4
    assert slurm.calls["sbatch"] == 2


def test_a_run_out_of_memory_asks_for_more(proof: ModuleType, slurm: FakeSlurm, tmp_path: Path) -> None:
    sweep = proof.Sweep(
        tmp_path / "s",
        packs=1,
        members=1,
        steps=5,
        resources={"memory_mb": 500, "max_memory_mb": 900},
        settings={"toy": {"oom_at": 3, "attempts": [1]}},
    )
    sweep.finish(sweep.loop())
    asked = {name: spec["options"]["mem"] for name, spec in slurm.state["specs"].items()}
    assert sorted(asked.values()) == ["500M", "900M"]
