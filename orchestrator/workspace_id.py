"""Which workspace lies at a path: ``workspace.json``, made at its first write; and which of its packs are still there.

What a host remembers of a workspace (the index) is bound to it: a folder that was deleted and made again is another
workspace, and nothing that was known of the old one is true of it.
"""

from __future__ import annotations

import contextlib
import os
import uuid

from jobs.durable import decide_file, read_json
from jobs.workspace import Workspace


def workspace_id(space: Workspace) -> str | None:
    """The id of the workspace, None where nothing has been written yet."""
    record = read_json(space.identity)
    return None if record is None else record["workspace"]


def ensure_workspace_id(space: Workspace) -> str:
    """The id of the workspace; made where there is none (of several writers at once the first stands)."""
    found = workspace_id(space)
    if found is not None:
        return found
    space.root.mkdir(parents=True, exist_ok=True)
    decide_file(space.identity, {"workspace": uuid.uuid4().hex})
    found = workspace_id(space)
    assert found is not None, "it was written or found"
    return found


def packs_on_disk(space: Workspace) -> set[str]:
    """Packs that have a directory. Lists names only, in at most 257 folders however many packs there are."""
    found: set[str] = set()
    with contextlib.suppress(FileNotFoundError):
        for bucket in os.scandir(space.packs):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found.update(os.listdir(bucket.path))
    return found
