"""Forms of JSON values: each reads a value strictly, writes it, and has a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kraftcheck.spec.values import cut, visible


class Unfit(Exception):  # noqa: N818 - becomes an InputError with file and line
    """A JSON value has another form than the expected one."""

    def __init__(self, expected: str, found: Any, name: str = "") -> None:
        self.expected, self.found, self.name = expected, found, name
        shown = "nothing" if found is MISSING else visible(cut(repr(found), 60))
        super().__init__(f"expected {expected}{f' in {name}' if name else ''}, found {shown}")


MISSING = object()
"""The value of a field that an object lacks."""


class Form(NamedTuple):
    """A form; `default` is the value of a field that is left out, MISSING if it is required."""

    schema: dict[str, Any]
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    default: Any = MISSING

    def or_else(self, default: Any) -> Form:
        """Return the form of a field that may be left out; None as the default stands for null as well."""
        if default is not None:
            return self._replace(default=default)
        return Form(
            {"anyOf": [self.schema, {"type": "null"}]},
            lambda value: None if value is None else self.read(value),
            lambda value: None if value is None else self.write(value),
            None,
        )

    def of(self, name: str, definitions: dict[str, Any]) -> Form:
        """Return the form with its schema as a definition."""
        definitions[name] = self.schema
        return self._replace(schema={"$ref": f"#/$defs/{name}"})


def number(most: int = (1 << 63) - 1, least: int = 0) -> Form:
    """Return the form of an integer."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise Unfit(f"an integer from {least} to {most}", value)
        return value

    return Form({"type": "integer", "minimum": least, "maximum": most}, read)


def text() -> Form:
    """Return the form of a string."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise Unfit("a string", value)
        return value

    return Form({"type": "string"}, read)


def choice(values: Iterable[str]) -> Form:
    """Return the form of one of some strings."""
    known = tuple(values)

    def read(value: Any) -> str:
        if value not in known:
            raise Unfit(f"one of {', '.join(known)}", value)
        return str(value)

    return Form({"type": "string", "enum": list(known)}, read)


def listed(form: Form, kind: Callable[[Iterable[Any]], Any] = tuple) -> Form:
    """Return the form of an array; `kind` makes its value. A set is written in order."""

    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise Unfit("an array", value)
        return kind(map(form.read, value))

    def write(value: Iterable[Any]) -> list[Any]:
        return [form.write(one) for one in (sorted(value) if kind is frozenset else value)]

    return Form({"type": "array", "items": form.schema}, read, write)


def mapped(form: Form) -> Form:
    """Return the form of an object whose names are numbers."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not all(n.isascii() and n.isdigit() and len(n) < 10 for n in value):
            raise Unfit("an object with numbers of nodes as names", value)
        return {name: form.read(one) for name, one in value.items()}

    schema = {"type": "object", "propertyNames": {"pattern": "^[0-9]{1,9}$"}, "additionalProperties": form.schema}
    return Form(schema, read)


def fields(forms: Mapping[str, Form]) -> Form:
    """Return the form of an object; its value is a dictionary without the optional fields that are left out."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unfit("an object", value)
        unknown = next((name for name in value if name not in forms), None)
        if unknown is not None:
            raise Unfit(f"one of the fields {', '.join(forms)}", unknown)
        return {
            name: _within(name, form, value.get(name, MISSING))
            for name, form in forms.items()
            if name in value or form.default is MISSING
        }

    def write(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: form.write(value[name]) for name, form in forms.items() if name in value}

    return Form(
        {
            "type": "object",
            "properties": {name: form.schema for name, form in forms.items()},
            "required": [name for name, form in forms.items() if form.default is MISSING],
            "additionalProperties": False,
        },
        read,
        write,
    )


def row(forms: Mapping[str, Form]) -> Form:
    """Return the form of an object whose value is a tuple of its fields; all are required."""
    form = fields(forms)
    return Form(
        form.schema,
        lambda value: tuple(form.read(value).values()),
        lambda value: form.write(dict(zip(forms, value, strict=True))),
    )


def _within(name: str, form: Form, value: Any) -> Any:
    if value is MISSING:
        raise Unfit("a value", MISSING, name)
    try:
        return form.read(value)
    except Unfit as problem:
        path = f"{name}.{problem.name}" if problem.name else name
        raise Unfit(problem.expected, problem.found, path) from None
