"""Configurations where traces or state sets are compared: of the properties that a `.cfg` names nothing depends."""

from __future__ import annotations

from dataclasses import replace

from kraftcheck.spec.cfg.binding import BoundConfig, bind
from kraftcheck.spec.cfg.config import ModelConfig
from kraftcheck.spec.language.protocol import Protocol


def bind_leniently(
    protocol: type[Protocol], config: ModelConfig, *, whole_space: bool
) -> tuple[BoundConfig, list[str]]:
    """Bind a configuration to a protocol, without its properties.

    Parameters
    ----------
    protocol
        The class, the variant already chosen.
    config
        What the `.cfg` says.
    whole_space
        Whether all reachable states are asked for, so that what bounds the search matters too: constraints and VIEW.

    Returns
    -------
    BoundConfig
        An instance with its constants, and where and under which symmetry a search starts.
    list of str
        Warnings: names of properties that the protocol does not know.

    Raises
    ------
    InputError
        At the first other thing that the protocol does not know.
    """
    known = {*protocol.properties, *protocol.temporal}
    warnings = [
        f"{named.position}: {protocol.name()} has no property {named.name}; nothing depends on it here"
        for named in (*config.invariants, *config.properties)
        if named.name not in known
    ]
    config = replace(config, invariants=(), properties=(), alias=None, postcondition=None)
    if config.specification is not None and protocol.specifications.get(config.specification.name):
        config = replace(config, specification=None)  # it asks for fairness, which no finite behaviour breaks
    if not whole_space:
        config = replace(config, constraints=(), action_constraints=(), view=None)
    return bind(protocol, config), warnings
