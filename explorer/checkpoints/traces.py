"""Counterexamples as text in a manifest."""

from __future__ import annotations

from typing import Any

from kraftcheck.explorer.behaviour import Behaviour
from kraftcheck.explorer.result import TraceStep
from kraftcheck.spec.decoding import Lexicon, decode
from kraftcheck.spec.encoding import encode
from kraftcheck.spec.values import Value


def value_of(trace: Behaviour) -> Value:
    """Return a counterexample as a value."""
    return tuple((step.state, *map(_optional, (step.action, step.actor, step.message))) for step in trace)


def encode_trace(trace: Behaviour) -> str:
    """Return a counterexample as text."""
    return encode(value_of(trace)).hex()


def decode_trace(text: str, lexicon: Lexicon) -> Behaviour:
    """Return the counterexample that was encoded.

    Parameters
    ----------
    text
        What `encode_trace` returned.
    lexicon
        The classes and model values that it may have.

    Raises
    ------
    DecodingError
        Where the text is another one.
    """
    steps: Any = decode(bytes.fromhex(text), lexicon)
    return tuple(TraceStep(state, *(part[0] if part else None for part in rest)) for state, *rest in steps)


def _optional(value: Any) -> Value:
    return () if value is None else (value,)
