"""The index: what the facts of a workspace say, folded, on this host's own disk. Disposable.

It is written by loops and ``doctor --rebuild`` only, and holds nothing that the facts do not: whoever deletes it loses
a few seconds. A pack that is *settled* is never read again; of an open one the index keeps the views of its attempts
with the byte up to which their facts are folded, so that a reader adds the tail and no more.

    packs(pack, settled, body)     body: {"sweeps", "verdicts", "attempts", ...}
    sweeps(sweep, body)            counts by state, cost, what waits and why, when it was written
    batches(batch)                 submissions that need no second look
    meta(key, value)

It is bound to the identity of its workspace (``orchestrator.workspace_id``), not to a path.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from jobs.facts import FailureClass
from jobs.state import RunState
from orchestrator.errors import OrchestratorError
from orchestrator.history import AttemptView, run_end_from
from orchestrator.verdicts import RunVerdict

SCHEMA = "4"
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "fuse.ceph", "afs"}
    | {"fuse.sshfs", "glusterfs", "fuse.glusterfs", "orangefs", "pvfs2", "panfs", "ncpfs", "9p"}
)
_TABLES = """
CREATE TABLE IF NOT EXISTS packs (pack TEXT PRIMARY KEY, settled INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS open_packs ON packs (settled) WHERE settled = 0;
CREATE TABLE IF NOT EXISTS sweeps (sweep TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS batches (batch TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


def filesystem_of(path: Path, mounts: str | None = None) -> str:
    """Type of the file system that ``path`` (or its nearest existing parent) lies on; "" where nobody can say."""
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text()
        except OSError:
            return ""
    existing = path.absolute()
    while not existing.exists():
        existing = existing.parent
    where = existing.resolve()
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        point = fields[1].replace("\\040", " ")
        if where.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def refuse_network(path: Path, mounts: str | None = None) -> None:
    """Raises OrchestratorError where the index would lie on a network file system: SQLite corrupts there."""
    kind = filesystem_of(path, mounts)
    if kind in NETWORK_FILESYSTEMS:
        raise OrchestratorError(
            f"the index {path} would lie on {kind}, a network file system, where SQLite corrupts; "
            f"set XDG_CACHE_HOME to a folder on this host's own disk"
        )


class Index:
    """Open an index, making it where there is none (``write``), or raise FileNotFoundError (a reader).

    A file that is not a whole index of this version and of this workspace (``identity``; None where the workspace has
    none yet) is thrown away by a writer, and no index to a reader.
    """

    def __init__(self, path: Path, *, write: bool, identity: str | None) -> None:
        self.path = path
        self._write = write
        self.identity = identity
        refuse_network(path)
        self.trouble = ""
        """Why it is kept in memory instead (a full disk), "" where it is not."""
        if write:
            try:
                self._open_file()
            except (OSError, sqlite3.OperationalError) as error:
                self.trouble = f"the index {path} cannot be written, so `status` reads files instead: {error}"
                self._open(":memory:")
        else:
            if not path.exists():
                raise FileNotFoundError(path)
            try:
                self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10, isolation_level=None)
                if self.meta("schema") != SCHEMA or identity is None or self.meta("workspace") != identity:
                    self._db.close()
                    raise FileNotFoundError(f"{path} was written by another version, or for another workspace")
            except sqlite3.DatabaseError as error:
                raise FileNotFoundError(f"{path} cannot be read: {error}") from error

    def _open_file(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._open(self.path)
        except sqlite3.DatabaseError:
            discard(self.path)
            self._open(self.path)

    def _open(self, path: Path | str) -> None:
        self._db = sqlite3.connect(path, timeout=10, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # after a power cut it is rebuilt
        self._db.executescript(_TABLES)
        ours = {"schema": SCHEMA, "workspace": self.identity}
        if any(self.meta(key) not in (None, value) for key, value in ours.items()):
            self._db.executescript("DELETE FROM packs; DELETE FROM sweeps; DELETE FROM batches; DELETE FROM meta;")
        rows = [(key, orjson.dumps(value)) for key, value in ours.items()]
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)

    def close(self) -> None:
        self._db.close()

    # Reading

    def meta(self, key: str) -> Any | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else orjson.loads(row[0])

    def batches(self) -> list[str]:
        return [batch for (batch,) in self._db.execute("SELECT batch FROM batches")]

    def settled(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Settled packs and their bodies."""
        for pack, body in self._db.execute("SELECT pack, body FROM packs WHERE settled = 1"):
            yield pack, orjson.loads(body)

    def open_packs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Open packs and their bodies."""
        for pack, body in self._db.execute("SELECT pack, body FROM packs WHERE settled = 0"):
            yield pack, orjson.loads(body)

    def pack(self, pack: str) -> dict[str, Any] | None:
        """Body of one pack."""
        row = self._db.execute("SELECT body FROM packs WHERE pack = ?", (pack,)).fetchone()
        return None if row is None else orjson.loads(row[0])

    def sweep(self, sweep: str) -> dict[str, Any] | None:
        row = self._db.execute("SELECT body FROM sweeps WHERE sweep = ?", (sweep,)).fetchone()
        return None if row is None else orjson.loads(row[0])

    # Writing

    def store(
        self,
        packs: Iterable[tuple[str, bool, Mapping[str, Any]]] = (),
        sweeps: Mapping[str, Mapping[str, Any]] | None = None,
        batches: Iterable[str] = (),
        meta: Mapping[str, Any] | None = None,
        forget: Iterable[str] = (),
    ) -> None:
        """Write all of it in one transaction, after removing the packs in ``forget``."""
        assert self._write, "readers do not write"
        try:
            self._db.execute("BEGIN IMMEDIATE")
            if self.meta("workspace") != self.identity:
                raise sqlite3.DatabaseError("another workspace lies at this path now")
            self._db.executemany("DELETE FROM packs WHERE pack = ?", [(pack,) for pack in forget])
            self._db.executemany(
                "INSERT OR REPLACE INTO packs VALUES (?, ?, ?)",
                [(pack, int(settled), orjson.dumps(body)) for pack, settled, body in packs],
            )
            self._db.executemany(
                "INSERT OR REPLACE INTO sweeps VALUES (?, ?)",
                [(sweep, orjson.dumps(body)) for sweep, body in (sweeps or {}).items()],
            )
            self._db.executemany("INSERT OR IGNORE INTO batches VALUES (?)", [(batch,) for batch in batches])
            self._db.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                [(key, orjson.dumps(value)) for key, value in (meta or {}).items()],
            )
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def discard(path: Path) -> None:
    """Delete an index and what SQLite keeps beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def verdicts_to(verdicts: Mapping[str, RunVerdict]) -> dict[str, Any]:
    """A pack's verdicts as orjson takes them."""
    return {run: [v.state, v.failure, v.message, v.attempt, v.delay_s, v.end] for run, v in verdicts.items()}


def verdicts_from(data: Mapping[str, Any]) -> dict[str, RunVerdict]:
    return {
        run: RunVerdict(
            RunState(state),
            None if failure is None else FailureClass(failure),
            message,
            attempt,
            delay,
            None if end is None else run_end_from(end),
        )
        for run, (state, failure, message, attempt, delay, end) in data.items()
    }


def views_from(data: Iterable[Mapping[str, Any]]) -> list[AttemptView]:
    return [AttemptView.from_json(view) for view in data]
