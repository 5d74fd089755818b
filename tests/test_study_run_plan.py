"""The plan of a study: what it says, and what is said of a bad one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.study.run.plan import CROPS, METHODS, PROTOCOLS, Arm, Plan, VlmPlan

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def _is_key(value: Any) -> bool:
    return not isinstance(value, list | dict)


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,12}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arms = st.builds(
    Arm,
    name=names,
    method=st.sampled_from(sorted(METHODS)),
    crop=st.sampled_from(CROPS),
    guard=st.booleans(),
    depth=st.booleans(),
    risk=st.none() | st.floats(0.001, 0.999),
    protocol=st.none() | st.sampled_from(sorted(PROTOCOLS)),
    model=st.none() | texts,
    options=st.dictionaries(texts, plain, max_size=3),
)
plans = st.builds(
    Plan,
    name=texts,
    data=st.none() | texts,
    protocol=st.sampled_from(sorted(PROTOCOLS)),
    per_step=st.integers(1, 9),
    seeds=st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True).map(tuple),
    arms=st.lists(arms, min_size=1, max_size=4, unique_by=lambda arm: arm.name).map(tuple),
    vlm=st.builds(VlmPlan, model=st.none() | texts, concurrency=st.none() | st.integers(1, 64)),
)


@given(plans)
def test_what_is_written_is_read_as_the_same_plan(plan: Plan) -> None:
    assert Plan.parse(plan.to_yaml()) == plan


near_arms = st.dictionaries(
    names | plain.filter(_is_key), st.dictionaries(st.sampled_from(list(Arm.model_fields)), plain)
)
near_plans = st.fixed_dictionaries(
    {"name": texts, "arms": near_arms | plain},
    optional={name: plain for name in (*Plan.model_fields, "defaults") if name not in ("name", "arms")},
)


@given(st.text(max_size=200) | (near_plans | plain).map(lambda value: yaml.safe_dump(value)))
def test_whatever_stands_in_the_file_it_is_a_plan_or_an_input_error(text: str) -> None:
    told = "<text>"
    try:
        assert isinstance(Plan.parse(text), Plan)
    except InputError as error:
        told = str(error)
    assert told.startswith("<text>")


def test_defaults_are_merged_into_each_arm_and_an_arm_may_be_named_as_its_method() -> None:
    plan = Plan.parse(
        """
        name: a
        defaults: {crop: truth, options: {case: best, most: 3}}
        arms:
          nearest:
          other: {method: guided, crop: none, options: {case: nearest}}
        """
    )
    first, second = plan.arms
    assert (first.method, first.crop, first.options) == ("nearest", "truth", {"case": "best", "most": 3})
    assert (second.method, second.crop, second.options) == ("guided", "none", {"case": "nearest", "most": 3})


def test_trained_methods_go_by_folds_unless_told_otherwise() -> None:
    plan = Plan.parse("name: a\narms: {classifier: , nearest: , other: {method: classifier, protocol: new-device}}")
    assert [plan.protocol_of(arm) for arm in plan.arms] == ["folds", "held-out", "new-device"]


def test_a_plan_names_its_model_by_the_settings_names() -> None:
    plan = Plan.parse("name: a\narms: {guided: }\nvlm: {base_url: 'http://x/v1', model: m, seconds: 9, cache: c.db}")
    assert plan.vlm.settings() == {"base_url": "http://x/v1", "vlm_model": "m", "vlm_seconds": 9.0, "vlm_cache": "c.db"}


GOOD = "name: a\narms:\n  one: {method: nearest}\n"
BAD: dict[str, Any] = {
    "empty": "",
    "list": "- a\n",
    "syntax": "name: a: b\n",
    "no name": "arms: {random: }\n",
    "number as name": "name: 1\narms: {random: }\n",
    "no arms": "name: a\n",
    "arms as a list": "name: a\narms: [random]\n",
    "field": GOOD + "seed: [1]\n",
    "field of an arm": GOOD + "  two: {method: nearest, corp: none}\n",
    "field of the defaults": GOOD + "defaults: {gaurd: false}\n",
    "method": GOOD + "  two: {method: nearst}\n",
    "no method": GOOD + "  two: {crop: none}\n",
    "crop from the defaults": GOOD + "defaults:\n  crop: percptual\n",
    "protocol": GOOD + "protocol: heldout\n",
    "twice": GOOD + "  one: {method: random}\n",
    "name of an arm": GOOD + "  'a b': {method: random}\n",
    "risk": GOOD + "  two: {method: nearest, risk: 5}\n",
    "seeds": GOOD + "seeds: [1, 1]\n",
    "seed": GOOD + "seeds: [one]\n",
    "per_step": GOOD + "per_step: 0\n",
    "option": GOOD + "  two: {method: nearest, options: {day: 2026-01-01}}\n",
    "key in the plan": GOOD + "vlm: {api_key: abc}\n",
    "field of vlm": GOOD + "vlm: {modl: abc}\n",
    "tag": "name: !!python/object:os.system a\narms: {random: }\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_plan_is_told_with_its_line_and_what_is_valid(name: str, tmp_path: Path, snapshot: Any) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(BAD[name])
    with pytest.raises(InputError) as caught:
        Plan.load(path)
    assert str(caught.value).replace(str(tmp_path), "DIR") == snapshot


def test_one_number_as_seeds_is_told_to_be_a_list() -> None:
    with pytest.raises(InputError, match=r":4: the plan: seeds is 3; valid: a list, as in \[0, 1\]"):
        Plan.parse(GOOD + "seeds: 3\n")


def test_a_plan_that_cannot_be_read(tmp_path: Path, snapshot: Any) -> None:
    told = []
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe4\n")
    for name in ("none.yaml", "latin.yaml", ""):
        with pytest.raises(InputError) as caught:
            Plan.load(tmp_path / name)
        told.append(str(caught.value).replace(str(tmp_path), "DIR"))
    assert told == snapshot


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("study-*.yaml")), ids=lambda path: path.stem)
def test_the_example_plans_are_plans(path: Path) -> None:
    plan = Plan.load(path)
    assert Plan.parse(plan.to_yaml()) == plan
    asks = {"zero-shot", "single-rag", "bad-single-rag", "guided", "guided-always", "fine-tuned-vlm"}
    assert bool(asks & {arm.method for arm in plan.arms}) == ("vlm" in path.stem)
