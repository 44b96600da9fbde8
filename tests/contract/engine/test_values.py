"""Values and names: what is put is what one gets, here and in tasks, and under which names."""

from __future__ import annotations

from tests.contract.engine.conftest import Book
from tests.leaks import eventually


def test_what_is_put_is_what_one_gets_here_and_in_tasks(book: Book) -> None:
    book.ok("""
        import pandas as pd
        values = [None, True, 10**40, 1.5, "ä\\0", b"bytes", (1, (2,)), {"a": [1, {2}]}, len, ...]
        refs = [wb.put(value) for value in values]
        assert wb.get(refs) == values
        same = wb.remote(lambda value: value)
        assert wb.get([same.remote(value) for value in values]) == values
        assert wb.get([same.remote(ref) for ref in refs]) == values
        for array in (np.arange(10), np.asfortranarray(np.ones((500, 700))), np.zeros((0, 3))):
            for got in (wb.get(wb.put(array)), wb.get(same.remote(array))):
                assert (got.dtype, got.shape) == (array.dtype, array.shape)
                assert got.tolist() == array.tolist()
        df = pd.DataFrame({"n": np.arange(1000.0), "s": [f"name {i}" for i in range(1000)]})
        pd.testing.assert_frame_equal(wb.get(wb.put(df)), df)
        pd.testing.assert_frame_equal(wb.get(same.remote(df)), df)
    """)


def test_a_stored_array_is_read_only_and_a_copy_is_ones_own(book: Book) -> None:
    book.ok("""
        ref = wb.put(np.ones(1_000_000))
        assert not wb.get(ref).flags.writeable
        said = wb.get(wb.remote(lambda a: (a.flags.writeable, float(a.sum()))).remote(ref))
        assert said == (False, 1_000_000.0)
        for mine in (wb.get(ref, copy=True), wb.get(ref, copy_on_write=True)):
            mine[0] = 7
            assert (mine[0], wb.get(ref)[0]) == (7, 1)
    """)


def test_refs_classes_and_functions_travel_in_values(book: Book) -> None:
    book.ok("""
        inner = wb.put("inner")
        outer = wb.put({"ref": inner})
        del inner
        opened = wb.remote(lambda d: wb.get(d["ref"]))
        assert wb.get(opened.remote(wb.get(outer))) == "inner"
        assert wb.get(opened.remote(outer)) == "inner"
        made = wb.get(wb.remote(lambda: [wb.put("made there")]).remote())
        assert wb.get(made[0]) == "made there"
        factor = 3
        class Point:
            def __init__(self, x): self.x = x
            def scaled(self): return Point(self.x * factor)
        points = wb.get(wb.remote(lambda p: [p.scaled(), p]).remote(Point(2)))
        assert [p.x for p in points] == [6, 2]
        assert all(type(p) is Point for p in points)
        factor = 5
        assert wb.get(wb.remote(lambda p: p.scaled().x).remote(Point(2))) == 10
        import threading
        lock = threading.Lock()
    """)
    book.fails("wb.remote(len).remote([lock])", "SerializationError", "lock")
    book.fails("%put lock", "SerializationError")


def test_workers_that_were_there_before_know_a_serializer(book: Book) -> None:
    book.ok(f"""
        import threading
        class Locked:
            def __init__(self, n): self.n, self.lock = n, threading.Lock()
        many = 2 * {book.system.workers}
        wb.get([wb.remote(abs).remote(-n) for n in range(many)])
        wb.register_serializer(
            Locked, serializer=lambda o: o.n, deserializer=lambda n: Locked(n + 100)
        )
        assert wb.get(wb.remote(lambda o: o.n).remote(Locked(1))) == 101
    """)
    book.needs("serializers")
    book.ok("""
        made = [wb.remote(lambda n: Locked(n)).remote(n) for n in range(many)]
        assert [wb.get(ref).n for ref in made] == [100 + n for n in range(many)]
        assert wb.get(wb.remote(lambda o: o.n).remote(made[0])) == 100
        wb.deregister_serializer(Locked)
        back = wb.remote(lambda: Locked(1)).remote()
    """)
    book.fails("wb.get(back)", "SerializationError")


def test_getting_takes_no_longer_than_one_says(book: Book) -> None:
    book.ok("never = wb.remote(lambda: pause()).remote()")
    book.fails("wb.get(never, timeout=0.05)", "GetTimeoutError")
    book.fails("wb.get(never, timeout=0)", "GetTimeoutError")
    book.ok("wb.cancel(never)")


def test_freed_memory_is_given_back_whoever_has_refs(book: Book) -> None:
    """A worker, an actor, and who asks for it again are told that it was freed."""
    book.ok("""
        @wb.remote
        class Holder:
            def __init__(self, refs): self.refs = refs
            def get(self): return float(wb.get(self.refs[0])[0])
            def lets_go(self):
                try: wb.get(self.refs[0])
                except Exception as error: return str(error)
        held, other = wb.put(np.ones(4_000_000)), wb.put(1)
        holder = Holder.remote([held])
        assert wb.get(holder.get.remote()) == 1.0
        def used():
            now = wb.snapshot()
            return int(now.capacity - (now.available or 0))
    """)
    before = int(book.value("used()"))
    book.ok("view = wb.get(held)\nwb.free(held)\nassert view.sum() == 4_000_000\ndel view")
    assert eventually(lambda: "freed" in book.value("str(wb.get(holder.lets_go.remote()))"))
    book.fails("wb.get(held)", "ObjectFreedError", "freed")
    book.ok("assert wb.get(other) == 1")
    if book.system.name == "ray":  # of the others, which drop it themselves, this says nothing
        assert eventually(lambda: int(book.value("used()")) <= before - 31_000_000)


def test_a_name_finds_its_object_here_and_in_tasks(book: Book) -> None:
    book.ok("""
        wb.put({"rate": 0.1}, name="settings")
        assert wb.get(wb.remote(lambda: wb.get("settings")["rate"]).remote()) == 0.1
        wb.put("newer", name="settings")
        assert wb.get("settings") == "newer"
        wb.get(wb.remote(lambda: [wb.put("from a task", name="told")]).remote())
        assert wb.get("told") == "from a task"
        wb.put(np.arange(200_000), name="kept")
        import gc; gc.collect()
        assert wb.get("kept")[-1] == 199_999
        assert "kept" in [name for record in wb.objects() for name in record.names]
    """)
    book.fails("wb.get('nobody')", "ObjectLostError", "nobody")
