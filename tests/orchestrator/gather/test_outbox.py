"""What a store was given already, and what is not sure."""

from __future__ import annotations

from pathlib import Path

from orchestrator.gather.outbox import Outbox, Sent, only_one, store_key


def test_intents_and_digests_survive_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "outbox.jsonl"
    box = Outbox.load(path, "s", "1")
    assert not box.known
    with box.writing() as log:
        box.record(log, "ra", None, None)
        box.record(log, "ra", "m1", "d1")
        box.record(log, "rb", None, None)
    with open(path, "ab") as file:
        file.write(b'{"store": "s", "exp')
    again = Outbox.load(path, "s", "1")
    assert again.known
    assert again.sent == {"ra": Sent("m1", "d1"), "rb": Sent(None, None)} == box.sent


def test_other_stores_and_experiments_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "outbox.jsonl"
    box = Outbox.load(path, "s", "1")
    with box.writing() as log:
        box.record(log, "ra", "m1", "d1")
    assert not Outbox.load(path, "other", "1").known
    assert not Outbox.load(path, "s", "2").known  # the experiment was deleted and made anew


def test_an_address_with_a_password_is_kept_as_a_hash() -> None:
    key = store_key("postgresql://user:secret@host/db")
    assert "secret" not in key
    assert key != store_key("postgresql://user:secret@host/other")


def test_one_export_at_a_time(tmp_path: Path) -> None:
    with only_one(tmp_path / "lock") as first, only_one(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with only_one(tmp_path / "lock") as later:
        assert later
