"""Finding jobs by our names: the queue's word, then accounting's. An id alone never means anything."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.backend import JobHandle, TemporaryError
from cluster.slurm.batches import Batches, array_name
from cluster.slurm.commands import Answer, Commands
from cluster.slurm.parse import ACCOUNT_FIELDS, AccountRow, account_rows, queue_rows, split_id
from cluster.slurm.queue_reader import OVER
from cluster.slurm.states import look_up
from cluster.slurm.submission import read_arrays
from cluster.slurm.watch import Watcher


def shown(command: str, answer: Answer) -> str:
    """What a command printed.

    Raises:
        TemporaryError: it does not answer.
    """
    if not answer.ok:
        raise TemporaryError(f"{command}: {answer.trouble}", 15.0)
    return answer.out


class Finder:
    """Finds for one backend. Everything may raise TemporaryError: not answered, or asked often enough."""

    def __init__(self, commands: Commands, batches: Batches, watcher: Watcher) -> None:
        self._commands = commands
        self._batches = batches
        self._watcher = watcher

    def afford(self, who: str, calls: int) -> None:
        """Calls that show something, all or none: the queue is not asked where accounting would not have its turn."""
        looks = self._commands.looks
        if calls and not looks.take(who, calls):
            raise TemporaryError("enough looks at the scheduler for this minute", max(1.0, looks.wait_s(who, calls)))

    def jobs(self, names: Sequence[str]) -> dict[str, JobHandle]:
        """See ``cluster.backend.Backend.find``."""
        wanted = set(names)
        if not wanted:
            return {}
        accounting = self._watcher.accounting
        self.afford("find", 1 + accounting)
        found: dict[str, JobHandle] = {}
        live: set[str] = set()
        for handle, row in self._watcher.queue.rows(shown("squeue", self._watcher.queue.read())).items():
            if handle.name not in wanted or handle.name in live:
                continue
            found[handle.name] = handle
            if not _over(row.word):
                live.add(handle.name)
        arrays = {
            array_name(directory.name, array.first)
            for directory in self._batches.holders(wanted - found.keys())
            for array in read_arrays(directory)
        }
        if not accounting:
            return found
        if not arrays:
            self._commands.looks.give_back()
            return found
        for row in self._accounts("-X", "--name", ",".join(sorted(arrays))):
            name = self._batches.name_of_row(row)
            # What accounting calls running and the queue does not know is a row that nobody ended.
            if name in wanted and name not in live and name not in found and _over(row.word):
                found[name] = JobHandle("slurm", row.id, name)
        return found

    def array(self, name: str) -> str | None:
        """Id of the array that carries this name, None where there is none."""
        recent = self._watcher.queue.recent()
        accounting = self._watcher.accounting
        self.afford("submit", (recent is None) + accounting)
        queue = shown("squeue", recent or self._watcher.queue.read())
        found = next((split_id(row.id)[0] for row in queue_rows(queue) if row.name == name), None)
        if not accounting:
            return found
        if found is not None:
            self._commands.looks.give_back()
            return found
        accounts = self._accounts("-X", "-D", "--name", name)
        return next((split_id(row.id)[0] for row in accounts if row.name == name and _over(row.word)), None)

    def _accounts(self, *options: str) -> list[AccountRow]:
        """Rows of sacct since our first batch; none where this site keeps no accounts."""
        answer = self._commands("sacct", "-n", "-P", "-S", self._watcher.since(), *options, "-o", ACCOUNT_FIELDS)
        if not answer.ok and "accounting storage is disabled" in answer.err:
            self._watcher.accounting = False
            return []
        return account_rows(shown("sacct", answer))


def _over(word: str) -> bool:
    return look_up(word)[0] in OVER
