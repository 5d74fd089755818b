"""The knowledge tree (paper A): family → device → ordered steps → cases, and what it can be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sagehand.cases.case import Case
from sagehand.errors import NoSuchCase, near_misses

__all__ = ["DeviceNode", "FamilyNode", "StepNode", "ThinStep", "Tree", "grow_tree", "no_such"]

_THIN = 2


@dataclass(frozen=True)
class StepNode:
    """One step of a device."""

    number: int | None
    """The step's number; None collects the cases whose step is not known."""
    name: str | None
    """The state most of its cases name, else the name it was declared with."""
    cases: int
    """How many active cases it has; 0 for a step that was only declared."""
    next_actions: tuple[str, ...]
    """The next actions of its cases, each once, in alphabetical order."""
    thin: bool
    """Whether it has fewer than two cases."""


@dataclass(frozen=True)
class DeviceNode:
    """One device: a leaf of the paper's search."""

    family: str
    """Its family."""
    name: str
    """Its name."""
    steps: tuple[StepNode, ...]
    """Its steps by number; the one without a number comes last."""
    cases: int
    """How many active cases it has."""


@dataclass(frozen=True)
class FamilyNode:
    """One family of devices."""

    name: str
    """Its name."""
    devices: tuple[DeviceNode, ...]
    """Its devices in alphabetical order."""
    cases: int
    """How many active cases it has."""


@dataclass(frozen=True)
class ThinStep:
    """A step that wants more pictures."""

    family: str
    """The device's family."""
    device: str
    """The device."""
    step: StepNode
    """The step."""


@dataclass(frozen=True)
class Tree:
    """All that the case base covers."""

    nodes: tuple[FamilyNode, ...]
    """The families in alphabetical order."""
    revision: int
    """The case base's revision."""

    def families(self) -> list[str]:
        """The families' names."""
        return [family.name for family in self.nodes]

    def devices(self, family: str) -> list[str]:
        """The names of a family's devices.

        Raises:
            NoSuchCase: There is no such family.
        """
        return [device.name for device in self._family(family).devices]

    def device(self, family: str, device: str) -> DeviceNode:
        """A device with its steps.

        Raises:
            NoSuchCase: There is no such family or device.
        """
        nodes = {node.name: node for node in self._family(family).devices}
        if device not in nodes:
            raise no_such(f"device in family {family!r}", device, nodes)
        return nodes[device]

    def steps(self, family: str, device: str) -> tuple[StepNode, ...]:
        """The steps of a device, in order.

        Raises:
            NoSuchCase: There is no such family or device.
        """
        return self.device(family, device).steps

    def thin(self) -> list[ThinStep]:
        """The steps with fewer than two cases, in the tree's order."""
        return [
            ThinStep(device.family, device.name, step)
            for family in self.nodes
            for device in family.devices
            for step in device.steps
            if step.thin
        ]

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain data, for JSON."""
        return {"revision": self.revision, "families": [asdict(family) for family in self.nodes]}

    def _family(self, name: str) -> FamilyNode:
        nodes = {node.name: node for node in self.nodes}
        if name not in nodes:
            raise no_such("family", name, nodes)
        return nodes[name]


def no_such(kind: str, name: str, known: Iterable[str]) -> NoSuchCase:
    """The error for a name that is not in the case base, with those that are."""
    names = sorted(known)
    listed = ", ".join(names[:30]) + (f", … ({len(names)} in all)" if len(names) > 30 else "")
    close = near_misses(name, names)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
    return NoSuchCase(f"there is no {kind} called {name!r}; known: {listed or 'none'}", hint=hint)


def grow_tree(
    cases: Mapping[tuple[str, str], Iterable[Case]],
    declared: Iterable[tuple[str, str, int, str | None]],
    revision: int,
) -> Tree:
    """Build the tree.

    Args:
        cases: The active cases of every device, by (family, device), derived fields filled in.
        declared: Family, device, number and name of the steps that were declared.
        revision: The case base's revision.
    """
    names: dict[tuple[str, str], dict[int, str | None]] = {}
    for family, device, number, name in declared:
        names.setdefault((family, device), {})[number] = name
    families: dict[str, list[DeviceNode]] = {}
    for key in sorted({*cases, *names}):
        families.setdefault(key[0], []).append(_device(key, list(cases.get(key, ())), names.get(key, {})))
    nodes = [FamilyNode(name, tuple(nodes), sum(n.cases for n in nodes)) for name, nodes in families.items()]
    return Tree(tuple(nodes), revision)


def _device(key: tuple[str, str], cases: Sequence[Case], declared: Mapping[int, str | None]) -> DeviceNode:
    by_step: dict[int | None, list[Case]] = {number: [] for number in declared}
    for case in cases:
        by_step.setdefault(case.step, []).append(case)
    numbers = sorted(by_step, key=lambda n: (n is None, n or 0))
    steps = [_step(n, by_step[n], None if n is None else declared.get(n)) for n in numbers]
    return DeviceNode(*key, tuple(steps), len(cases))


def _step(number: int | None, cases: Sequence[Case], declared: str | None) -> StepNode:
    states = Counter(case.state for case in cases if case.state is not None)
    # the commonest, and of equally common ones the first in the alphabet, whatever the order of the cases
    name = min(states, key=lambda state: (-states[state], state)) if states else declared
    actions = sorted({case.next_action for case in cases if case.next_action is not None})
    return StepNode(number, name, len(cases), tuple(actions), len(cases) < _THIN)
