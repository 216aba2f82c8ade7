"""What is said of actions by name is said too of their steps that only a mutant has, which count under another name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from kraftcheck.explorer.result import Options
from kraftcheck.spec.language.formula import Enabled, Fairness, Formula, Taken
from kraftcheck.spec.language.property import Property

Names = Mapping[str, str]
"""The name of an action's new steps, by the action's."""


class _Renaming(Property):
    """A temporal property in whose formula the new steps of an action are steps of that action."""

    names: Names

    def formula(self, protocol: object) -> Formula:
        """Return what it says."""
        return _renamed(super().formula(protocol), self.names)


def with_new_names(options: Options, names: Names) -> Options:
    """Return what a search checks, where some actions have steps under another name besides."""
    return replace(
        options,
        reachable=tuple(replace(one, without=tuple(_all(one.without, names))) for one in options.reachable),
        temporal=tuple(_temporal(one, names) for one in options.temporal),
        fairness=_fairness(options.fairness, names),
    )


def _all(actions: Iterable[str], names: Names) -> list[str]:
    """Return names of actions, with those of their new steps."""
    return list(dict.fromkeys(name for one in actions for name in (one, names.get(one, one))))


def _fairness(declared: Iterable[Fairness], names: Names) -> tuple[Fairness, ...]:
    return tuple(replace(one, actions=tuple(_all(one.actions, names))) for one in declared)


def _temporal(prop: Property, names: Names) -> Property:
    changed = {one.name: getattr(prop, one.name) for one in fields(prop)}
    made = _Renaming(**{**changed, "fairness": _fairness(prop.fairness, names)})
    vars(made)["names"] = names
    return made


def _renamed(formula: Formula, names: Names) -> Formula:
    """Return a formula that names an action's new steps wherever it names the action."""
    if isinstance(formula, Enabled | Taken):
        return type(formula)(frozenset(_all(formula.actions, names)))
    parts = {name: _renamed(part, names) for name, part in vars(formula).items() if isinstance(part, Formula)}
    return replace(formula, **parts) if parts else formula  # type: ignore[type-var]
