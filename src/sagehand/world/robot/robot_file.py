"""The reader of a robot's description file: every field checked, none unknown, lengths, angles and forces as each name says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagehand.errors import InputError, UnknownName
from sagehand.world.data_file import check_format, is_number

__all__ = ["OPTIONAL", "ROBOT_FIELDS", "parse_robot"]

ROBOT_FIELDS: dict[str, dict[str, str]] = {
    "": {
        "format": "version of the form of the file",
        "name": "as in panda",
        "title": "what it is, in words",
        "sources": "key: source, for the reader",
        "model": "its MJCF",
        "flange": "body of the arm that the hand is bolted to",
        "fingers": "the two bodies of the fingers; the first moves along +y of the hand",
        "ik": "frankik (closed form, the Panda's alone) or numeric",
        "joints": "one number a joint, in each list",
        "dh": "rows of a [m], d [m], alpha [rad]: modified Denavit–Hartenberg of each joint, then of the flange",
        "hand": "where hand, TCP and fingers are",
        "gripper": "what it opens to and how hard it presses",
        "envelope": "boxes that stand for the hand",
    },
    "model": {
        "package": "Python package that holds the files",
        "distribution": "what to install it by",
        "arm": "file of the arm",
        "hand": "file of the hand",
    },
    "joints": {
        "lower_rad": "lower limits",
        "upper_rad": "upper limits",
        "velocity_rad_s": "speed limits",
        "torque_nm": "torque limits",
        "home_rad": "where it starts from",
    },
    "hand": {
        "flange_yaw_rad": "turn of the hand's frame from the flange's, about z",
        "tcp_m": "TCP from the hand's frame, along z",
        "finger_root_m": "the fingers' frame from the hand's, along z",
        "tips_m": "how far the tips stand beyond the TCP",
    },
    "gripper": {
        "width_m": "smallest and largest opening",
        "margin_m": "what is left of the largest opening beside the widest object",
        "force_n": "smallest and largest normal force of each finger",
        "finger_speed_m_s": "of each finger",
        "pad": "box of the pad in the first finger's frame; its inner face is y = 0",
    },
    "envelope": {
        "hand": "boxes of the palm, in the hand's frame",
        "finger": "boxes of the first finger above its pad, in that finger's frame",
    },
    "box": {"centre_m": "its middle", "half_m": "its half lengths along x, y, z"},
}
"""Block → field → meaning; "" is the file itself, and "box" each box."""
OPTIONAL = frozenset(("format", "title", "sources"))
"""Fields that need not be there."""
_SOLVERS = ("frankik", "numeric")
_EXAMPLE = "docs/world-files.md shows every field"
_FACE_M = 1e-4


def parse_robot(doc: Any, where: str) -> dict[str, Any]:
    """A robot's document, checked.

    Args:
        doc: What the file holds.
        where: Its name, for errors.

    Returns:
        The same blocks and fields, with every number a float.

    Raises:
        InputError: A field is missing, unknown or wrong; the message names it.
    """
    if not isinstance(doc, Mapping):
        raise InputError(f"{where}: this is no robot description", hint=_EXAMPLE)
    check_format(doc, where)
    _fields(doc, "", where)
    done: dict[str, Any] = {key: _text(doc[key], f"{where}: {key}") for key in ("name", "flange", "ik")}
    if done["ik"] not in _SOLVERS:
        raise InputError(f"{where}: ik is {done['ik']!r}; it must be one of {', '.join(_SOLVERS)}")
    done["joints"] = _joints(doc["joints"], done["ik"], f"{where}: joints")
    done["dh"] = _dh(doc["dh"], len(done["joints"]["home_rad"]), where)
    done["hand"] = {
        key: _number(value, f"{where}: hand.{key}")
        for key, value in _fields(doc["hand"], "hand", f"{where}: hand").items()
    }
    done["gripper"] = _gripper(doc["gripper"], f"{where}: gripper")
    envelope = _fields(doc["envelope"], "envelope", f"{where}: envelope")
    done["envelope"] = {key: _boxes(envelope[key], f"{where}: envelope.{key}") for key in envelope}
    model = _fields(doc["model"], "model", f"{where}: model")
    done["model"] = {key: _text(model[key], f"{where}: model.{key}") for key in model}
    if not all(part.isidentifier() for part in done["model"]["package"].split(".")):
        raise InputError(f"{where}: model.package is {done['model']['package']!r}, which names no Python package")
    fingers = doc["fingers"]
    if not isinstance(fingers, list) or len(fingers) != 2 or fingers[0] == fingers[1]:
        raise InputError(f"{where}: fingers is {fingers!r}; it must be the names of two bodies")
    done["fingers"] = tuple(_text(name, f"{where}: fingers") for name in fingers)
    return done


def _fields(row: Any, block: str, where: str) -> Mapping[str, Any]:
    """A block that holds all of its fields and no other."""
    known = ROBOT_FIELDS[block]
    if not isinstance(row, Mapping):
        raise InputError(f"{where} is {row!r}; it must hold fields: {', '.join(known)}", hint=_EXAMPLE)
    for key in row:
        if key not in known:
            raise UnknownName(f"field of {where}", str(key), known)
    for key in known:
        if key not in row and not (block == "" and key in OPTIONAL):
            raise InputError(f"{where}: the field {key!r} is missing", hint=f"it is: {known[key]}; {_EXAMPLE}")
    return row


def _joints(row: Any, ik: str, where: str) -> dict[str, list[float]]:
    joints = _fields(row, "joints", where)
    home = joints["home_rad"]
    if not isinstance(home, list) or not home:
        raise InputError(f"{where}.home_rad is {home!r}; it must hold a number for each joint")
    count = len(home)
    done = {key: _numbers(joints[key], count, f"{where}.{key}") for key in joints}
    if ik == "frankik" and count != 7:
        raise InputError(f"{where}: there are {count}; ik: frankik is for seven", hint="use `ik: numeric`")
    lower, upper = done["lower_rad"], done["upper_rad"]
    for number in range(count):
        at = f"of joint {number + 1}"
        if lower[number] >= upper[number]:
            raise InputError(f"{where}: lower_rad {at} is {lower[number]:g}; it must be below upper_rad")
        if not lower[number] <= done["home_rad"][number] <= upper[number]:
            raise InputError(f"{where}: home_rad {at} is {done['home_rad'][number]:g}; it must be within its limits")
        for key in ("velocity_rad_s", "torque_nm"):
            if done[key][number] <= 0:
                raise InputError(f"{where}: {key} {at} is {done[key][number]:g}; it must be above 0")
    return done


def _dh(rows: Any, joints: int, where: str) -> list[list[float]]:
    if not isinstance(rows, list) or len(rows) != joints + 1:
        raise InputError(f"{where}: dh must hold {joints + 1} rows of a, d, alpha: one a joint, and one of the flange")
    return [_numbers(row, 3, f"{where}: dh[{number}]") for number, row in enumerate(rows)]


def _gripper(row: Any, where: str) -> dict[str, Any]:
    gripper = _fields(row, "gripper", where)
    done: dict[str, Any] = {key: _range(gripper[key], f"{where}.{key}") for key in ("width_m", "force_n")}
    for key in ("margin_m", "finger_speed_m_s"):
        done[key] = _number(gripper[key], f"{where}.{key}")
    if not 0 <= done["margin_m"] < done["width_m"][1]:
        raise InputError(f"{where}.margin_m is {done['margin_m']:g}; it must be from 0 to below the largest opening")
    if done["finger_speed_m_s"] <= 0:
        raise InputError(f"{where}.finger_speed_m_s is {done['finger_speed_m_s']:g}; it must be above 0")
    pad = _box(gripper["pad"], f"{where}.pad")
    if abs(pad["centre_m"][1] - pad["half_m"][1]) > _FACE_M:
        raise InputError(f"{where}.pad: its inner face is not y = 0", hint="centre_m and half_m are the same along y")
    return done | {"pad": pad}


def _boxes(rows: Any, where: str) -> list[dict[str, list[float]]]:
    if not isinstance(rows, list):
        raise InputError(f"{where} is {rows!r}; it must be a list of boxes")
    return [_box(row, f"{where}[{number}]") for number, row in enumerate(rows)]


def _box(row: Any, where: str) -> dict[str, list[float]]:
    fields = _fields(row, "box", where)
    done = {key: _numbers(fields[key], 3, f"{where}.{key}") for key in fields}
    if min(done["half_m"]) <= 0:
        raise InputError(f"{where}.half_m is {done['half_m']}; each must be above 0")
    return done


def _range(values: Any, where: str) -> tuple[float, float]:
    low, high = _numbers(values, 2, where)
    if not 0 <= low < high:
        raise InputError(f"{where} is {values}; the first must be at least 0 and below the second")
    return low, high


def _numbers(values: Any, count: int, where: str) -> list[float]:
    if not isinstance(values, list) or len(values) != count or not all(is_number(v) for v in values):
        raise InputError(f"{where} is {values!r}; it must hold {count} finite numbers")
    return [float(v) for v in values]


def _number(value: Any, where: str) -> float:
    if not is_number(value):
        raise InputError(f"{where} is {value!r}; it must be a finite number")
    return float(value)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{where} is {value!r}; it must be text")
    return value
