"""How long a job asks for and how early it is warned: a person's word, else what was measured, else the site's. Pure.

Slurm sends a warning up to a minute early, and looks at limits every half minute; a save must fit between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.backend import Needs, Resources
from cluster.slurm.limits import Partition, minutes_of
from cluster.slurm.profile import Profile
from cluster.slurm.reservations import LEAST_MINUTES, MARGIN_MINUTES

LEAD = "lead_s"
"""Under ``resources.extra``: the lead that a person chose."""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """What a job is submitted with.

    Attributes:
        minutes: for ``--time``; None: nothing is asked for, the partition's default holds.
        source: whose word the limit is.
        lead_s: seconds before the limit at which the job is warned; ``lead_source``: whose word that is.
        notes: what a person should know of it.
    """

    minutes: int | None
    source: str
    lead_s: int
    lead_source: str
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """As plans show it."""
        limit = "the partition's default" if self.minutes is None else f"{self.minutes} min"
        whose = "" if self.source == "the partition" else f" ({self.source})"
        return f"time limit {limit}{whose}, warned {self.lead_s} s before it ({self.lead_source})"


def time_limit(resources: Resources, profile: Profile, partition: Partition, left: float | None) -> TimeLimit:
    """The limit and the lead of a job.

    Args:
        partition: the one it goes to, as far as it is known.
        left: minutes until a maintenance, None for none.

    A limit that a person named for the run is never changed. What is proposed, and what the profile or the partition
    gives where nobody named one, is at most the profile's ``minutes`` and the partition's MaxTime, and is shortened to
    end before a maintenance, as long as a first checkpoint fits; else it stays, and the job waits until that is over.
    """
    named = _named(resources)
    notes: list[str] = []
    if named is not None:
        minutes, source = named
        limit = minutes
        notes += _of_named(minutes, source, partition, left)
    else:
        minutes, source = _chosen(resources.needs, profile, partition)
        limit = minutes or partition.default_minutes
        least = LEAST_MINUTES if resources.needs is None else resources.needs.least_minutes
        if left is not None and (limit is None or limit > int(left) - MARGIN_MINUTES):
            room = int(left) - MARGIN_MINUTES
            begins = f"a maintenance begins in {_time(left)}"
            if room >= least:
                before = "no limit" if limit is None else f"{limit} min"
                notes.append(f"shortened from {before} to {room}: {begins}")
                minutes = limit = room
            else:
                notes.append(
                    f"{begins}, too soon for one checkpoint interval ({least} min): jobs wait until it is over"
                )
    lead, whose, more = _lead(resources, profile, limit)
    return TimeLimit(minutes, source, lead, whose, (*notes, *more))


def _named(resources: Resources) -> tuple[int | None, str] | None:
    """What the run itself asks for."""
    if resources.minutes is not None:
        return resources.minutes, "resources.minutes"
    time = dict(resources.extra).get("time")
    return None if time is None else (minutes_of(str(time)), "resources.extra.time")


def _of_named(minutes: int | None, source: str, partition: Partition, left: float | None) -> list[str]:
    """What is wrong with a limit that nobody may change."""
    if minutes is None:
        return []
    if partition.most_minutes is not None and minutes > partition.most_minutes:
        return [f"{source} asks for {minutes} min; partition {partition.name} gives at most {partition.most_minutes}"]
    if left is not None and minutes > left:
        return [
            f"a maintenance begins in {_time(left)}; jobs of {minutes} min ({source}) wait until it is over, unless "
            f"they ask for {max(1, int(left) - MARGIN_MINUTES)} or less"
        ]
    return []


def _chosen(needs: Needs | None, profile: Profile, partition: Partition) -> tuple[int | None, str]:
    """What is asked for where the run names nothing."""
    site = profile.minutes or None  # 0 is no limit, as for sbatch
    if needs is None:
        return site, "the partition" if site is None else "the site profile"
    most = min((cap for cap in (site, partition.most_minutes) if cap is not None), default=needs.minutes)
    if needs.minutes <= most:
        return needs.minutes, "from measured speed"
    return most, f"the most there is; {needs.minutes} min of work, from measured speed, take several jobs"


def _lead(resources: Resources, profile: Profile, minutes: int | None) -> tuple[int, str, list[str]]:
    needed = None if resources.needs is None else resources.needs.lead_s
    chosen = dict(resources.extra).get(LEAD)
    if chosen is not None:
        wanted, whose = int(chosen), f"resources.extra.{LEAD}"
    elif needed is not None and needed > profile.lead_s:
        wanted, whose = needed, "measured saves"
    else:
        wanted, whose = profile.lead_s, "the site's" if needed is None else "the site's; measured saves need less"
    lead = wanted if not minutes else max(1, min(wanted, minutes * 30))
    if lead < wanted:
        whose = "half of a short limit"
    if needed is None or lead >= needed:
        return lead, whose, []
    return lead, whose, [f"a warning {lead} s before the limit is too short: measured saves need {needed} s"]


def _time(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
