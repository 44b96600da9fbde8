"""Keys and topics of sessions on Dask: each key says whose it is."""

from __future__ import annotations

from workbench.engines.dask.topics import PREFIX, id_of, key_of, topic


def test_a_key_begins_with_what_people_call_the_task_and_ends_with_its_id() -> None:
    key = key_of("book~12ab", "cell 3: <lambda>", 0x4C3219EB00000002)
    assert key.startswith("cell_3_lambda-")
    assert key.count("-") == 1  # Dask groups by what stands before
    assert id_of(key) == 0x4C3219EB00000002


def test_sessions_have_keys_of_their_own() -> None:
    assert key_of("a~1", "f", 7) != key_of("b~1", "f", 7)
    assert key_of("a~1", "", 7).startswith("task-")


def test_what_is_none_of_ours_has_no_id() -> None:
    item = key_of("s", "f", 7) + "-item-1"
    for other in ("inc-9d0c4a", "x", item, ("x", 1), 3):
        assert id_of(other) is None


def test_each_process_has_a_topic_of_its_own() -> None:
    assert topic("s~1", 255).startswith(PREFIX)
    assert topic("s~1", 1) != topic("s~1", 2)
