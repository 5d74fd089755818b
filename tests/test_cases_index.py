"""Search: filters first, a total order that every process agrees on, and an index that follows what is written."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagehand.cases.base import CaseBase
from sagehand.cases.case import Case, CaseDraft, Where
from sagehand.cases.index import CODED_FIELDS, Index
from sagehand.embed import EmbedderIdentity
from sagehand.errors import BadVector, InputError, UnknownName

DIMENSION = 16
IDENTITY = EmbedderIdentity("hash", "r", DIMENSION, "p")


def unit(seed: int, dimension: int = DIMENSION) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def draft(number: int, vector: np.ndarray | None = None, **row: Any) -> CaseDraft:
    name = hashlib.md5(b"%d" % number).hexdigest()
    labels = {"file_name": f"{number}.png", "family": "phone", "device": f"d{number % 3}", "step": number % 4, **row}
    return CaseDraft(b"%d" % number, name, unit(number) if vector is None else vector, labels)


def truth(cases: dict[str, np.ndarray], query: np.ndarray) -> list[str]:
    """Ids by exact cosine: every product of two float32 is exact in float64, and fsum adds without rounding."""

    def cosine(vector: np.ndarray) -> float:
        dot = math.fsum(a * b for a, b in zip(vector.tolist(), query.tolist(), strict=True))
        return round(dot / math.sqrt(math.fsum(a * a for a in vector.tolist())), 9)

    return sorted(cases, key=lambda i: (-cosine(cases[i]), i))


def test_filters_come_first_and_the_count_is_right() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        query = unit(0)
        base.add_many([draft(n, unit(n) * np.sign(unit(n) @ query)) for n in range(1, 1000)])
        base.add(draft(1000, -query, family="radio"))
        (hit,) = base.search(query, k=5, where=Where(family="radio"))
        assert (hit.case.family, hit.similarity) == ("radio", -1.0)
        for where, matching in ((None, 1000), (Where(device="d1", step=1), 84), (Where(family="nobody"), 0)):
            for k in (1, 7, 84, 85, 2000):
                hits = base.search(query, k=k, where=where)
                assert len(hits) == min(k, matching)
                assert [h.similarity for h in hits] == sorted((h.similarity for h in hits), reverse=True)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_every_filter_agrees_with_a_plain_loop(data: st.DataObject) -> None:
    value = st.sampled_from(["a", "b", None])
    rows = data.draw(st.lists(st.fixed_dictionaries(
        {"family": st.sampled_from("ab"), "device": st.sampled_from("ab"), "step": st.sampled_from([1, 2, None]),
         "place": value, "previous_action": value, "next_action": value, "group": value}), max_size=20))  # fmt: skip
    with CaseBase.in_memory(IDENTITY) as base:
        base.add_many([draft(n, **row) for n, row in enumerate(rows)])
        cases = base.cases()
        ids = st.frozensets(st.sampled_from([c.id for c in cases] or ["x"]), max_size=3)
        where = Where(
            **{name: data.draw(value) for name in ("family", "device", "place", "previous_action", "next_action")},
            step=data.draw(st.sampled_from([1, 2, None])),
            exclude=data.draw(ids),
            exclude_groups=data.draw(st.frozensets(st.sampled_from(["a", "b", "z"]))),
        )
        expected = {c.id for c in cases if where.matches(c)}
        assert {hit.case.id for hit in base.search(unit(1), k=99, where=where)} == expected
        assert {case.id for case in base.cases(where)} == expected


@pytest.mark.parametrize("dimension", [3, 16, 576, 1280])
def test_the_order_is_the_exact_one_whatever_the_history(dimension: int, tmp_path: Path) -> None:
    identity = EmbedderIdentity("hash", "r", dimension, "p")
    rng = np.random.default_rng(dimension)
    query = unit(dimension, dimension)
    vectors = {draft(n).pixel_id: unit(n, dimension) for n in range(40)}
    for n in range(40, 120):  # near-duplicates: differences of one rounding step of float32
        near = query + rng.choice([0, 2.0**-22, -(2.0**-22)], dimension).astype(np.float32) * query
        vectors[draft(n).pixel_id] = (near / np.linalg.norm(near)).astype(np.float32)
    for n in range(120, 140):
        vectors[draft(n).pixel_id] = query  # exact ties
    numbers = list(range(140))
    rankings, similarities = [], []
    for trial in range(4):
        rng.shuffle(numbers)
        with CaseBase.create(tmp_path / f"{trial}", embedder=identity) as base:
            for start in range(0, 140, 35):
                base.add_many([draft(n, vectors[draft(n).pixel_id]) for n in numbers[start : start + 35]])
                base.index()
                base.retire(draft(numbers[start]).pixel_id)
                base.index()
                base.undo()
            stored = dict(zip(base.index().ids, base.index().vectors.copy(), strict=True))
            rankings.append([h.case.id for h in base.search(query, k=100)])
            similarities.append(dict(zip(base.index().ids, base.index().similarities(query).tolist(), strict=True)))
            assert base.search(query, k=1)[0].similarity == 1.0
    normal = query / np.sqrt(np.square(query, dtype=np.float64).sum())
    assert rankings[0] == truth(stored, normal)[:100]
    assert all(ranking == rankings[0] for ranking in rankings)
    assert all(values == similarities[0] for values in similarities)


def test_a_row_alone_and_in_a_crowd_is_equally_similar() -> None:
    with CaseBase.in_memory(EmbedderIdentity("hash", "r", 1280, "p")) as base:
        base.add_many([draft(n, unit(n, 1280)) for n in range(300)])
        index, query = base.index(), unit(-1 % 1000, 1280)
        everything = index.similarities(query)
        for row in range(0, 300, 7):
            mask = np.zeros(300, bool)
            mask[row] = True
            rows, values = index.top(query, 3, mask)
            assert (rows.tolist(), values.tolist()) == ([row], [everything[row]])
        rows, values = index.top(query, 50)
        np.testing.assert_array_equal(values, everything[rows])


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(0, 1))
def test_top_is_the_sorted_list(seed: int, k: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    with CaseBase.in_memory(IDENTITY) as base:
        base.add_many([draft(n, unit(int(rng.integers(20)))) for n in range(50)])
        index, query = base.index(), unit(seed)
        mask = rng.random(50) < share
        values = index.similarities(query)
        expected = sorted(np.flatnonzero(mask), key=lambda row: (-values[row], index.ids[row]))[:k]
        rows, found = index.top(query, k, mask)
        assert rows.tolist() == expected
        np.testing.assert_array_equal(found, values[expected])


def test_an_index_never_changes_and_the_next_one_follows() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        base.add_many([draft(n, place="table") for n in range(70)])
        first = base.index()
        before = (
            first.ids.copy(),
            first.vectors.copy(),
            [list(first.codes(f)[0]) for f in CODED_FIELDS],
            list(first.cases),
        )
        base.correct(draft(4).pixel_id, {"place": "cnc"})
        base.index()
        base.add(draft(100, place="vise"))
        base.index()
        base.correct(draft(3).pixel_id, {"place": "cnc", "device": "other"})
        base.index()
        base.retire(draft(5).pixel_id)
        base.index()
        base.insert_step("phone", "d1", 0)
        second = base.index()
        after = (first.ids, first.vectors, [list(first.codes(f)[0]) for f in CODED_FIELDS], list(first.cases))
        assert before[0] == after[0]
        np.testing.assert_array_equal(before[1], after[1])
        assert before[2:] == after[2:]
        assert len(first) == len(second) == 70
        assert (first.row(draft(5).pixel_id), second.row(draft(5).pixel_id)) == (
            first.ids.index(draft(5).pixel_id),
            None,
        )
        assert first.row(draft(100).pixel_id) is None
        assert second.cases[second.row(draft(3).pixel_id)].device == "other"
        with pytest.raises(ValueError, match="read-only"):
            first.vectors[0, 0] = 1


def same(one: Index, other: Index) -> None:
    """Two indexes hold the same cases, vectors and codes, in whatever order."""
    assert sorted(one.ids) == sorted(other.ids)
    rows = [other.row(case_id) for case_id in one.ids]
    np.testing.assert_array_equal(one.vectors, other.vectors[rows])
    assert list(one.cases) == [other.cases[row] for row in rows]
    for name in CODED_FIELDS:
        (codes, words), (other_codes, other_words) = one.codes(name), other.codes(name)
        spelt = [None if code < 0 else words[code] for code in codes]
        assert spelt == [None if code < 0 else other_words[code] for code in other_codes[rows]]
        attributes = [getattr(case, name) for case in one.cases]
        assert spelt == [None if value is None else str(value) for value in attributes]
    depths = {one.ids[row]: vector.tobytes() for row, vector in one.depth_vectors.items()}
    assert depths == {other.ids[row]: vector.tobytes() for row, vector in other.depth_vectors.items()}


def test_following_by_delta_equals_loading_anew(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    file = tmp_path / "cases"
    with CaseBase.create(file, embedder=IDENTITY) as writer, CaseBase.open(file) as follower:
        follower.index()
        for round_ in range(40):
            active = [case.id for case in writer.cases()]
            what = rng.integers(6) if active else 0
            if what <= 1:
                actions = {"next_action": "pry"} if rng.random() < 0.7 else {}
                new = draft(round_, step=int(rng.integers(4)), **actions)
                depth = unit(round_, 576) if rng.random() < 0.5 else None
                writer.add(CaseDraft(new.image, new.pixel_id, new.vector, new.row, depth_vector=depth))
            elif what == 2:
                writer.correct(str(rng.choice(active)), {"place": "vise", "next_action": str(rng.choice(["a", "b"]))})
            elif what == 3:
                writer.retire(str(rng.choice(active)))
            elif what == 4:
                writer.undo()
            else:
                writer.insert_step("phone", writer.get(active[0]).device, 0)
            if rng.random() < 0.5:
                writer.index()
            with CaseBase.open(file) as fresh:
                same(follower.index(), fresh.index())
                same(writer.index(), fresh.index())
                assert follower.tree().to_dict() == fresh.tree().to_dict()
                assert follower.cases() == fresh.cases()


def test_codes_hold_derived_values() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        base.add(draft(0, device="x", step=1, next_action="pry"))
        base.index()
        base.add(draft(1, device="x", step=2))
        base.add(draft(2, device="x", step=2))
        codes, words = base.index().codes("previous_action")
        assert [words[code] if code >= 0 else None for code in codes] == [None, "pry", "pry"]
        assert len(base.search(unit(0), k=5, where=Where(previous_action="pry"))) == 2
        assert "previous_action" in base.get(draft(1).pixel_id).derived


def test_a_revived_case_has_its_new_vector_even_when_no_one_looked_between() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        base.add_many([draft(n) for n in range(3)])
        base.index()
        base.retire(draft(1).pixel_id)
        base.add(draft(1, unit(99)))
        np.testing.assert_allclose(base.index().vectors[base.index().row(draft(1).pixel_id)], unit(99), atol=1e-7)
        assert base.log(1)[0].operation == "revive"


def test_bad_questions_say_what_is_valid() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        assert base.search(unit(0), k=3) == []
        assert base.index().similarities(unit(0)).shape == (0,)
        base.add(draft(0))
        with pytest.raises(InputError, match="valid: 1 or more"):
            base.search(unit(0), k=0)
        with pytest.raises(InputError, match=r"valid: \(1,\)"):
            base.index().top(unit(0), 1, np.ones(2, bool))
        with pytest.raises(UnknownName, match="did you mean 'next_action'"):
            base.index().codes("next_acton")
        with pytest.raises(BadVector):
            base.index().similarities(np.zeros(DIMENSION, np.float32))
        assert isinstance(base.index().cases[-1], Case)
        assert len(base.index().cases[0:1]) == 1


def test_looking_for_changes_costs_next_to_nothing(tmp_path: Path) -> None:
    with CaseBase.create(tmp_path / "cases", embedder=IDENTITY) as base:
        base.add_many([draft(n) for n in range(200)])
        base.index()

        def best_of(rounds: int) -> float:
            times = []
            for _ in range(rounds):
                start = time.perf_counter()
                base.index()
                times.append(time.perf_counter() - start)
            return min(times)

        assert best_of(2000) <= 50e-6


def test_searching_while_others_write() -> None:
    with CaseBase.in_memory(IDENTITY) as base:
        base.add_many([draft(n) for n in range(50)])
        failures: list[BaseException] = []
        done = threading.Event()

        def search() -> None:
            try:
                while not done.is_set():
                    index = base.index()
                    rows, _ = index.top(unit(7), 10)
                    assert len({index.cases[int(row)].id for row in rows}) == 10
            except BaseException as error:  # handed to the main thread
                failures.append(error)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for n in range(50, 90):
            base.add(draft(n))
            base.correct(draft(n - 20).pixel_id, {"place": f"p{n}"})
            if n % 5 == 0:
                base.retire(draft(n - 30).pixel_id)
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(base.index()) == 82
