"""Profiles: what names tell, and where a probe's findings are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sagehand.errors import InputError, SettingsError
from sagehand.vlm.boxes import Convention
from sagehand.vlm.profile import (
    Profile,
    builtin_profile,
    load_profile,
    normal_url,
    profile_for,
    profile_path,
    save_profile,
)

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("model", "family", "boxes", "factor"),
    [
        ("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl", "0-1000", 32),
        ("qwen3-vl:30b-a3b-instruct-q4_K_M", "qwen3-vl", "0-1000", 32),
        ("Qwen3VL-8B-Thinking-AWQ", "qwen3-vl", "0-1000", 32),
        ("qwen2.5vl:7b", "qwen2.5-vl", "pixels", 28),
        ("Qwen2_5-VL-72B-Instruct", "qwen2.5-vl", "pixels", 28),
        ("Qwen/Qwen2-VL-2B", "qwen2-vl", "0-1000", 28),
        ("models/gemini-2.5-flash", "gemini", "yx-1000", 28),
        ("gpt-4o-mini-2024-07-18", "gpt-4o", "0-1", 28),
        ("gpt-4.1", "gpt-4o", "0-1", 28),
        ("openai/o4-mini", "gpt-5", "0-1", 28),
        ("deepseek-ai/deepseek-vl2", "deepseek-vl2", "0-999", 28),
        ("qwen2.5:7b", "unknown", "0-1", 28),
        ("moondream", "unknown", "0-1", 28),
        ("", "unknown", "0-1", 28),
    ],
)
def test_names_tell_the_family(model: str, family: str, boxes: Convention, factor: int) -> None:
    profile = builtin_profile(model)
    assert (profile.family, profile.boxes, profile.factor) == (family, boxes, factor)
    assert not profile.probed
    assert profile.evidence
    assert profile.min_side >= 2 * profile.factor


def test_a_saved_profile_is_used_for_that_model_on_that_server_only(tmp_path: Path) -> None:
    """S07: the same name on another engine is another thing, and so is another model on the same server."""
    found = replace(
        builtin_profile("qwen3-vl"),
        boxes="pixels",
        modes=("tools", "text"),
        options={"top_k": 1},
        max_images=2,
        required=False,
    )
    path = save_profile(f"{URL}/", "m/a:1", found, folder=tmp_path)
    assert path.parent == tmp_path
    loaded = profile_for("HTTP://127.0.0.1:8000/v1", "m/a:1", folder=tmp_path)
    assert loaded == replace(found, probed=True)
    assert profile_for(URL, "m/b:1", folder=tmp_path).probed is False
    assert profile_for("http://127.0.0.1:8001/v1", "m/a:1", folder=tmp_path).probed is False
    assert profile_for(None, "m/a:1", folder=tmp_path).probed is False


def test_profiles_lie_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = save_profile(URL, "Qwen/Qwen3-VL 8B", Profile())
    assert path.parent == tmp_path / "sagehand" / "profiles"
    assert path.name.startswith("qwen-qwen3-vl-8b-")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert profile_path(URL, "m").parent == tmp_path / "home" / ".cache" / "sagehand" / "profiles"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda d: d.update(format=2), "another form"),
        (lambda d: d.update(model="b"), "another form or model"),
        (lambda d: d.pop("profile"), "cannot be read"),
        (lambda d: d["profile"].update(boxes="inches"), "boxes is 'inches'"),
        (lambda d: d["profile"].update(patch=0), "patch is 0"),
        (lambda d: d["profile"].update(colour=1), "unknown field 'colour'"),
    ],
)
def test_a_damaged_profile_is_said_with_the_remedy(tmp_path: Path, change: object, word: str) -> None:
    path = save_profile(URL, "a", Profile(), folder=tmp_path)
    doc = json.loads(path.read_text())
    change(doc)  # type: ignore[operator]
    path.write_text(json.dumps(doc))
    with pytest.raises(InputError, match=word) as caught:
        load_profile(URL, "a", folder=tmp_path)
    assert "sagehand vlm probe" in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_file_that_is_no_profile_is_said(tmp_path: Path, text: str) -> None:
    profile_path(URL, "a", folder=tmp_path).write_text(text)
    with pytest.raises(InputError, match="cannot be read"):
        load_profile(URL, "a", folder=tmp_path)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        save_profile(URL, "a", Profile(), folder=tmp_path / "file")


def test_thinking_is_a_field_of_the_body_beside_the_others() -> None:
    profile = Profile(options={"chat_template_kwargs": {"a": 1}, "top_k": 1}, thinking=False)
    assert profile.body_options == {"chat_template_kwargs": {"a": 1, "enable_thinking": False}, "top_k": 1}
    assert Profile(options={"top_k": 1}).body_options == {"top_k": 1}


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://LocalHost:8000/v1/", "http://localhost:8000/v1"),
        (" https://api.openai.com/v1 ", "https://api.openai.com/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("HTTPS://x/a/b//", "https://x/a/b"),
    ],
)
def test_one_form_of_an_address(url: str, normal: str) -> None:
    assert normal_url(url) == normal


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x/v1", "http://", "http://x:99999/v1", "http://x/v1?key=abc", "http://[x"]
)
def test_no_address_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(SettingsError, match="base URL") as caught:
        normal_url(url)
    assert "\n" not in str(caught.value)
    assert "abc" not in str(caught.value)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="user name or password") as caught:
        normal_url("http://me:hunter2@x/v1")
    assert "hunter2" not in str(caught.value)
