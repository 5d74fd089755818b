"""The search on a decision page: true to its trace, whole where parts are missing, safe against what labels hold."""

from __future__ import annotations

from typing import Any

import pytest

from sagehand.pages import decision_page
from test_pages_decision import Structure, answered, hostile, jpeg, minimal, see


def finding(topic: str, verdict: str, text: str) -> dict[str, str]:
    return {"topic": topic, "verdict": verdict, "text": text}


def image(ident: str, step: int | None, grade: int | None, **more: Any) -> dict[str, Any]:
    row = {
        "id": ident, "step": step, "state": "cover off", "file_name": f"{ident}.jpg", "next_action": "unscrew", "similarity": 0.8,
        "grade": grade, "best": False, "findings": [finding("shape", "agrees", "The same round housing.")], "error": None,
    }  # fmt: skip
    return row | more


def searched() -> dict[str, Any]:
    """A decision that a guided search led to."""
    leaves = [
        {
            "family": "phone", "device": "samsung_galaxy_s3", "expanded": False, "left_out": 3, "score": 8, "error": None,
            "summary": "The same housing.",
            "images": [image("a1b2c3", 3, 10), image("b1", 2, 4), image("b2", None, None, error="Truncated: cut off")],
        },
        {
            "family": "phone", "device": "lg_nitro_hd", "expanded": True, "left_out": 0, "score": None, "error": "not asked",
            "summary": "", "images": [image("d4e5f6", 2, 10)],
        },
    ]  # fmt: skip
    look = {
        "kind": "BoolGradeImage", "about": ["d4e5f6"], "answer": False, "error": None,
        "findings": [finding("place", "differs", "The query is in the vise."), finding("reasoning", "differs", "Not the same.")],
    }  # fmt: skip
    pair = {
        "first": "a1b2c3",
        "second": "d4e5f6",
        "winner": "a1b2c3",
        "settled": "rank",
        "why": "it answers 'first' twice",
    }
    tie = {
        "grade": 10, "tied": ["a1b2c3", "d4e5f6"], "how": "all pairs", "winner": "a1b2c3", "cycle": None, "note": "",
        "pairs": [pair],
    }  # fmt: skip
    search = {
        "case": "a1b2c3", "verified": True, "grade": 10, "reason": "graded 10, the highest of 3 pictures", "order": "at once",
        "questions": [look, {"kind": "GradeImage", "about": ["a1b2c3"], "answer": 10}], "saved_rounds": 1, "leaves": leaves,
        "expansion": "none was convincing", "tie": tie, "suspicions": ["it answers 'first' in both orders"],
        "limits": {"used_seconds": 12.4, "ran_out": "the time of 12 s is up"}, "cost": {"prompt": 61234},
    }  # fmt: skip
    return answered() | {
        "search": search,
        "usage": {"calls": 58, "prompt": 61234, "completion": 4512, "seconds": 91.2, "cached": 3},
        "model": {
            "name": "Qwen3-VL",
            "prompts": "9f3a2b1c4d5e6f70",
            "answer": {"next_action": "unscrew", "is_last": False},
        },
        "guard": "off",
        "failure": {"kind": "Truncated", "message": "the reply was cut off", "hint": "", "retryable": False},
    }


def test_the_page_says_what_the_trace_says() -> None:
    seen = see(searched(), {"candidate:b1": jpeg()})
    for text in (
        "verified by the model", "2 questions", "3 pictures graded", "2 devices", "61\u202f234 tokens read", "12.4\u202fs",
        "Graded 10, the highest of 3 pictures", "the time of 12 s is up", "it answers 'first' in both orders",
        "First look: Lg nitro hd, step 2 Rejected", "The query is in the vise.", "Not the same.", "8 /10", "search expanded",
        "Truncated: cut off", "not asked", "3 pictures of the same steps not graded", "2 pictures shared the highest grade, 10",
        "Samsung galaxy s3, step 3 over Lg nitro hd, step 2 (by rank: it answers 'first' twice)", "None was convincing",
        "Qwen3-VL", "58", "off: the model could name any action", "no answer the reply was cut off", "What the model answered",
    ):  # fmt: skip
        assert " ".join(text.split()) in seen, text


def test_what_was_saved_is_told_and_nothing_is_shown_where_no_model_had_a_part() -> None:
    saved = answered() | {"saved": {"rounds": ["search"], "because": "the confidence 0.99 is at least 0.95"}}
    assert "not asked the confidence 0.99 is at least 0.95" in see(saved)
    plain = see(answered() | {"usage": {"calls": 0, "cached": 0}, "search": None, "model": None, "saved": None})
    assert "What was asked of the model" not in plain
    assert "How the case was found" not in plain


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("case", ["a1b2c3", None])
def test_what_the_search_found(verified: bool, case: str | None) -> None:
    doc = searched()
    doc["search"] |= {"case": case, "verified": verified}
    words = "no case found" if case is None else "verified by the model" if verified else "not verified"
    assert words in see(doc)


def test_a_search_with_parts_missing_still_has_its_page() -> None:
    bare = minimal() | {"search": {"reason": "the judge confirmed the first candidate"}, "usage": {}, "model": {}}
    assert "The judge confirmed the first candidate" in see(bare)
    doc = searched()
    for leaf in doc["search"]["leaves"]:
        leaf |= {"images": None, "summary": None}
    doc["search"] |= {
        "questions": None,
        "tie": None,
        "limits": None,
        "cost": None,
        "suspicions": None,
        "expansion": None,
    }
    assert "Samsung galaxy s3" in see(doc)


def test_what_a_model_says_is_shown_and_never_run() -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
    page = decision_page(hostile(searched(), evil), {"candidate:b1": jpeg()})
    parts = Structure(page)
    assert "script" not in parts.tags
    assert not [a for a in parts.attributes if a[1].startswith("on")]
    ids = [value for _, name, value in parts.attributes if name == "id"]
    assert len(ids) == len(set(ids))
