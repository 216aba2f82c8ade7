"""The program: translated handlers and properties.

An expression that depends on the protocol's constants alone is evaluated once, by Python. The rest is translated from
its source. Unsupported code raises `UntranslatableError`. An operation that Python may define otherwise ends the run
with the same error. In both cases another engine searches.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from kraftcheck.explorer.bytecode.kernel.codes import Op
from kraftcheck.explorer.bytecode.values import ValueHeap
from kraftcheck.spec.diagnosis.lint import CoverageProbe
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.values import Record


class Program:
    """The instructions of all functions that a search needs.

    `translation(program, function, watch)` returns the translation of one function.
    """

    def __init__(self, protocol: Protocol, heap: ValueHeap, translation: Callable[..., Any]) -> None:
        self.protocol, self.heap, self._translation = protocol, heap, translation
        self._code: list[tuple[int, int, int, int, int]] = []
        self._entries: list[tuple[int, int]] = []
        self._constants: dict[int, int] = {}
        self._functions: dict[Any, int] = {}
        self._waiting: list[Any] = []  # translations
        self.probes: dict[CoverageProbe, dict[int, int]] = {}
        self._probes = 0
        self.lines: list[str] = []
        self.records = [one for one in heap.classes if issubclass(one, Record)]

    def constant(self, value: Any) -> int:
        """Return the number of a constant."""
        return self._constants.setdefault(self.heap.encode(value), len(self._constants))

    def function(self, function: Any, watch: CoverageProbe | None = None) -> int:
        """Return the number of a function, with the probes of a watch; it is translated if it is new."""
        key = watch or function
        if key not in self._functions:
            self._functions[key] = len(self._functions)
            self._entries.append((0, 0))
            self._waiting.append(self._translation(self, function, watch))
        return self._functions[key]

    def seen(self, watch: CoverageProbe) -> list[int]:
        """Return the numbers of the probes of a property that a search has passed."""
        seen = self.heap.machine.seen
        return [number for number, place in self.probes.get(watch, {}).items() if seen[place]]

    def probe(self, watch: CoverageProbe, number: int) -> int:
        """Return the place of a probe among all probes."""
        places = self.probes.setdefault(watch, {})
        if number not in places:
            places[number] = self._probes
            self._probes += 1
        return places[number]

    def is_method(self, function: FunctionType) -> bool:
        """Return whether a function's first parameter is the protocol."""
        methods = [found for base in type(self.protocol).__mro__ for found in vars(base).values()]
        known = [(one, getattr(one, "fget", None), getattr(one, "__wrapped__", None)) for one in methods]
        return any(function in those and not isinstance(those[0], staticmethod) for those in known)

    def link(self) -> None:
        """Translate all functions that were asked for, and hand the program to the machine."""
        while self._waiting:
            one = self._waiting.pop()
            first = len(self._code)
            instructions, registers = one.translated()
            self._entries[self._functions[one.watch or one.function]] = first, registers
            self._code += [_relocated_instruction(code, first) for code in instructions]
            self.lines += [f"{one.function.__qualname__}, line {line}" for line in one.lines]
        self.heap.link()
        machine = self.heap.machine
        machine.code = np.array(self._code, np.int32).reshape(-1, 5)
        machine.passed = np.zeros(len(self._code) + 1, np.uint8)
        machine.constants = np.array([*self._constants, 0], np.int64)
        machine.seen = np.zeros(self._probes + 1, np.uint8)
        machine.functions = np.array([*self._entries, (0, 0)], np.int32)


def _relocated_instruction(code: tuple[int, ...], first: int) -> tuple[int, int, int, int, int]:
    operation, a, b, c, d = code
    if operation == Op.JUMP:
        a += first
    elif operation in (Op.IF, Op.UNLESS):
        b += first
    elif operation == Op.NEXT:
        c += first
    return operation, a, b, c, d
