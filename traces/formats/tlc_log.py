"""The format of TLC's log, with its error traces.

Source: the output of TLC 2.15 and of the current TLC, and the messages in ``tlc2/output/MP.java`` of the tlaplus
repository. The plain log and the log of ``-tool`` are supported; traces of ``-difftrace`` are completed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, KeysView, Mapping
from functools import lru_cache

from kraftcheck.spec.tla.text import TlcVersionStyle, format_value
from kraftcheck.spec.values import Value
from kraftcheck.traces.parsing import TraceError, TraceFileReader, ValueCache
from kraftcheck.traces.trace import (
    ActionLocation,
    InfiniteEnding,
    Trace,
    TraceEnd,
    TraceEvent,
    TraceFormat,
    TraceHead,
    TraceState,
)

LONGEST_VALUE = 4 * 2**20
"""Maximum length of one variable's text, in characters."""

MODULE_LINE = re.compile(r"-{4,}\s*MODULE\s+(\w+)\s*-{4,}\s*")
"""The first line of a module."""

_CONJUNCT_LINE = re.compile(r"(?:/\\ )?([A-Za-z_]\w*) = (.*)")
_DIGITS = r"(\d{1,9})"
_ACTION_LABEL = re.compile(
    r"(Initial predicate|[A-Za-z_][\w!]*)(\(.*\))?"
    rf"(?: line {_DIGITS}, col {_DIGITS} to line {_DIGITS}, col {_DIGITS} of module (\w+)"
    r"| Unknown location| unknown location)?"
)
_NAME_IN_OTHER_LABEL = re.compile(r"([A-Za-z_]\w*)(?: (?:line|in|of) .*|\(.*| ?\.\.\.)")
_LINE_COMMENT = re.compile(r"""^((?:[^"\\\n]|"(?:[^"\\\n]|\\.)*"|\\[^*\n])*?)\\\*.*""", re.MULTILINE)
_PLACEHOLDER_NAMES = ("Action", "UnnamedAction")


class StateTextReader:
    """Collects the variables of a state from the lines between its heading and the next blank line."""

    def __init__(self, file: str, cache: ValueCache) -> None:
        self._file = file
        self._cache = cache
        self.line = 0
        self.variables: dict[str, Value] = {}
        self._fingerprints: dict[str, bytes] = {}
        self._name: str | None = None
        self._text: list[str] = []
        self._size = 0
        self._begins = (0, 0)
        self._names: KeysView[str] | None = None  # variables of the first state

    def begin(self, line: int) -> None:
        """Start a new state with its heading on this line."""
        self.line = line
        self.variables = {}
        self._fingerprints = {}

    def take(self, number: int, text: str, skipped: int = 0) -> bool:
        """Parse a line of the state, without `skipped` characters before it; return whether it is one."""
        if text[:1] in (" ", "\t"):
            inner = text.lstrip()
            if self._name is not None and not inner.startswith("/\\ "):
                self._text.append(" " * skipped + text if skipped else text)
                self._count(len(text), number)
                return True
            skipped, text = skipped + len(text) - len(inner), inner  # conjuncts may be indented
        conjunct = _CONJUNCT_LINE.match(text)
        if conjunct is None:
            return False
        self.end_value()
        name = conjunct[1]
        if name in self.variables:
            raise TraceError(self._file, number, 1, f"'{name}' again", "a variable that this state did not have yet")
        self._name, self._text, self._size = name, [conjunct[2]], 0
        self._begins = (number, skipped + conjunct.start(2) + 1)
        self._count(len(conjunct[2]), number)
        return True

    def _count(self, characters: int, line: int) -> None:
        """Add to the length of the current value; raise TraceError beyond the limit."""
        self._size += characters
        if self._size > LONGEST_VALUE:
            expected = f"a value of at most {LONGEST_VALUE:,} characters"
            raise TraceError(self._file, line, 1, "one that is longer", expected)

    def end_value(self) -> None:
        """Parse the current value, if there is one."""
        if self._name is None:
            return
        line, column = self._begins
        value = "\n".join(self._text)
        if "\\*" in value:
            value = _LINE_COMMENT.sub(lambda found: found[1].rstrip(), value)
        try:
            found = self._cache.read(value, where=self._file, line=line, column=column)
        except TraceError as error:
            if error.found not in ("'..'", "'…'"):
                raise
            expected = f"the whole value of {self._name}; replay needs every value in full"
            part = f"{error.found} for a part of it"
            raise TraceError(self._file, error.line, error.column, part, expected) from None
        self.variables[self._name], self._fingerprints[self._name] = found
        self._name = None

    @property
    def fingerprints(self) -> tuple[bytes, ...]:
        """The hashes of the variables' texts, in order."""
        return tuple([self._fingerprints[name] for name in self.variables])

    def state(self, number: int, label: str | None = None) -> TraceState:
        """Return the state."""
        action, parameters, location = parse_action_label(label or "") if number > 1 else (None, None, None)
        return TraceState(number, self.variables, action, parameters, location, self.line, self.fingerprints)

    def complete(self, before: TraceState) -> None:
        """Add the unchanged variables that the file omits, from the state before."""
        if self.variables.keys() == before.variables.keys():
            return
        for name in self.variables:
            if name not in before.variables:
                expected = "one of the variables of the state before"
                raise TraceError(self._file, self.line, 1, f"a state with the variable '{name}'", expected)
        self.variables = {**before.variables, **self.variables}
        self._fingerprints = dict(zip(before.variables, before.fingerprints, strict=True)) | self._fingerprints

    @property
    def has_all_variables(self) -> bool:
        """Whether the state has all variables of the first state."""
        return self._names is None or self.variables.keys() == self._names

    def whole_state(self, number: int, label: str | None = None) -> TraceState:
        """Parse the last value and return the state, for a format with all variables in every state."""
        self.end_value()
        if self._names is None:
            self._names = self.variables.keys()
        names = self._names
        missing, more = names - self.variables.keys(), self.variables.keys() - names
        if missing or more:
            found = f"a state without '{min(missing)}'" if missing else f"a state with '{min(more)}'"
            expected = f"{'all' if missing else 'only'} the variables of the first state"
            raise TraceError(self._file, self.line, 1, found, expected)
        return self.state(number, label)


def begins_variable_conjunct(line: str) -> bool:
    r"""Whether a line begins the value of a variable, as ``/\\ x = 1`` does."""
    return line.startswith("/\\ ") and _CONJUNCT_LINE.match(line) is not None


@lru_cache(maxsize=4096)
def parse_action_label(label: str) -> tuple[str | None, str | None, ActionLocation | None]:
    """Parse the text between ``<`` and ``>`` of a heading: the name of an action, its parameters and its location.

    >>> parse_action_label("Vote(n1,n2) line 7, col 3 to line 9, col 20 of module Raft")
    ('Vote', 'n1,n2', ActionLocation(first_line=7, first_column=3, last_line=9, last_column=20, module='Raft'))
    """
    match = _ACTION_LABEL.fullmatch(label)
    if match is None:  # a pasted log may lack the module or have other text after the name
        known = _NAME_IN_OTHER_LABEL.match(label)
        return (known[1] if known else label or None), None, None
    name, parameters, *numbers, module = match.groups()
    location = location_from_numbers(numbers, module) if module else None
    return (None if name in _PLACEHOLDER_NAMES else name), parameters and parameters[1:-1], location


def location_from_numbers(numbers: Iterable[str | int], module: str) -> ActionLocation:
    """Return the location in a module for four numbers and the module's name."""
    first_line, first_column, last_line, last_column = map(int, numbers)
    return ActionLocation(first_line, first_column, last_line, last_column, module)


_STATE_HEADING = re.compile(r"(State )?(\d{1,9}):(?: <(.*)>| (Stuttering))?\s*")
_BARE_HEADING = re.compile(r"\d{1,9}: (?:<(?:Initial predicate|.* of module \w+)>|Stuttering)\s*")
_STATE_ON_ONE_LINE = re.compile(r"(?:State )?\d{1,9}:(?: <.*?>)?\s+(?:/\\ )?[A-Za-z_]\w* = ")
_QUOTE_PREFIX = re.compile(r"(\s*(?:(?:\\\*|[>#|;]|//+|--)[\s*]*)?)(?=Error: |State \d{1,9}:|\d{1,9}: <|Back to state)")
_QUOTE_PREFIX_CHARACTERS = frozenset(" \t\\>#|;/-")
_BACK_TO_STATE_LINE = re.compile(r"Back to state:? (\d{1,9})(?:: <(.*)>)?\s*|(\d{1,9}): Back to state(?:: <(.*)>)?\s*")
_BACK_TO_STATE_BEGINS = re.compile(r"(?:\d+: )?Back to state\b")
_TOOL_MESSAGE_MARK = re.compile(r"@!@!@(STARTMSG|ENDMSG) (\d+)(?::(\d+))? @!@!@\s*")
_STATE_CODES = ("2216", "2217", "2218", "2122")
_ERROR_SEVERITY = "1"
_ERROR_LINE = re.compile(r"Error: (.*)")
_TRACE_BEGINS = re.compile(r"The behavior up to this point is:|The following behavior constitutes a counter-example:")
_VIOLATION_MESSAGE = re.compile(
    r"(?:Invariant|Action property|Property|Temporal property) (.*) (?:is|was) violated(?: by the initial state:|\.)"
    r"|Temporal properties (.*) were violated\."
)
_INITIAL_STATE_VIOLATION = re.compile(r".* is violated by the initial state:")
_LINE_AFTER_TRACES = re.compile(
    r"\d[\d,]* states generated|Finished |Model checking completed|The number of states generated|The depth of "
    r"|TLC2? Version |The trace ends |The coverage statistics|\"CounterExample written"
)
_ERROR_WITHOUT_PREFIX = re.compile(rf"{_VIOLATION_MESSAGE.pattern}|Deadlock reached\.")
_LINE_WITHOUT_WORDS = re.compile(r"[^\w/\\]+")  # as '```' or '...'
_NO_ERROR_LINE = re.compile(r"Model checking completed\. No error has been found\.")


class _LogFormat(TraceFormat):
    order = 2  # the fallback for unrecognized files
    has_lines = True
    form = "text"

    def recognises(self, first: str, beginning: str) -> bool:
        return True

    def read(self, source: TraceFileReader, cache: ValueCache) -> Iterator[TraceEvent]:
        return _LogReader(source, cache).events()

    def write(self, trace: Trace) -> Iterator[str]:
        yield from trace_as_tlc_text(trace)
        if trace.complete and trace.ending is None:  # marks the trace as complete
            yield f"The trace ends in state {trace.states[-1].number}.\n"


TLC_LOG = _LogFormat("TLC log")


class _LogReader:
    def __init__(self, source: TraceFileReader, cache: ValueCache) -> None:
        self._source = source
        self._text = StateTextReader(source.file, cache)
        self._index = -1
        self._problem: str | None = None
        self._last: TraceState | None = None  # the previous state of the trace
        self._heading: str | None = None  # the heading and the number of the current state
        self._number = 1
        self._tool_code = ""
        self._tool_error = False
        self._found_no_error = False
        self._shows_only_changes = self._shows_unchanged = self._is_last = False
        self._quote = ""  # the indentation or comment mark before each line

    def events(self) -> Iterator[TraceEvent]:
        for number, line in self._source.lines():
            is_plain = not self._quote and (
                self._heading is not None or line[:1] not in _QUOTE_PREFIX_CHARACTERS
            )  # common
            text = line if is_plain else self._unquoted(line)
            if self._heading is not None:
                if self._text.take(number, text, len(line) - len(text)):
                    continue
                yield self._state()
                if not text.strip():
                    continue
                if self._is_unreadable(text):
                    raise self._source.error(f"'{text[:40]}'", "'/\\ name = value', or an empty line after the state")
            if text.strip():
                yield from self._line(number, text)
        yield from self._end_of_file()

    def _unquoted(self, line: str) -> str:
        """Return a line without the mark of a quoted log, such as `> `; an empty line if it lacks the mark."""
        if quoted := _QUOTE_PREFIX.match(line):
            self._quote = quoted[1]
        if line.startswith(self._quote):
            return line[len(self._quote) :]
        return ""

    def _end_of_file(self) -> Iterator[TraceEvent]:
        if self._heading is not None:
            yield from self._cut_short()
        if self._last is not None:
            yield TraceEnd(complete=False)
        elif self._index < 0:
            expected = "a trace ('State 1: <Initial predicate>')"
            if self._found_no_error:
                raise self._source.error("a log in which TLC found no error", expected)
            raise self._source.at_end(expected)

    def _line(self, number: int, text: str) -> Iterable[TraceEvent]:
        """Parse a line outside of a state."""
        if tool := _TOOL_MESSAGE_MARK.fullmatch(text):
            self._tool_code = tool[2] if tool[1] == "STARTMSG" else ""
            self._tool_error = tool[1] == "STARTMSG" and tool[3] == _ERROR_SEVERITY
        elif state := self._shown(_STATE_HEADING, "S", text):
            return self._heading_of_state(number, state)
        elif back := self._shown(_BACK_TO_STATE_LINE, "B", text):
            return [self._back(back)]
        elif (error := self._error_in(text)) is not None:
            return self._error(number, error)
        elif _LINE_AFTER_TRACES.match(self._outside(text)):
            self._found_no_error |= _NO_ERROR_LINE.match(text) is not None
            return self._end()
        return ()

    def _error_in(self, text: str) -> str | None:
        """Return the message of an error's line, or None for other lines."""
        if error := _ERROR_LINE.fullmatch(text):
            return error[1]
        return text if self._tool_error or _ERROR_WITHOUT_PREFIX.fullmatch(text) else None

    def _shown(self, pattern: re.Pattern[str], initial: str, text: str) -> re.Match[str] | None:
        """Match a heading if it begins with `initial` or a message code of ``-tool`` announces it."""
        is_named = text[0] == initial or self._tool_code in _STATE_CODES or _BARE_HEADING.fullmatch(text) is not None
        return pattern.fullmatch(text) if is_named else None

    def _outside(self, text: str) -> str:
        """Return a line outside of traces; raise TraceError for a damaged part of a trace."""
        if _STATE_ON_ONE_LINE.match(text):
            expected = "each variable on a line of its own ('/\\ name = value') below the state's heading"
            raise self._source.error(f"'{text[:40]}'", expected)
        if self._last is not None and _BACK_TO_STATE_BEGINS.match(text):
            raise self._source.error(f"'{text[:40]}'", "'Back to state 1: <...>'")
        if self._last is not None and (
            begins_variable_conjunct(text) or text.partition(" = ")[0] in self._last.variables
        ):
            raise self._source.error(f"'{text[:40]}'", f"'State {self._last.number + 1}: <...>' before it")
        return text

    def _heading_of_state(self, number: int, heading: re.Match[str]) -> Iterator[TraceEvent]:
        expected = 1 if self._last is None else self._last.number + 1
        if heading[4]:
            if self._last is None or int(heading[2]) != expected:
                raise self._source.error(f"'{heading[0]}'", f"state {expected}")
            yield from self._end(InfiniteEnding())
            return
        number_shown = int(heading[2])
        if number_shown == 1 or self._last is None:  # a pasted log may begin in the middle or omit states
            yield from self._end()
            yield self._head()
        elif number_shown < expected:
            raise self._source.error(f"state {heading[2]}", f"state {expected}")
        self._heading, self._number = heading[3] or "", number_shown
        self._text.begin(number)

    def _back(self, back: re.Match[str]) -> TraceEvent:
        number = int(back[1] or back[3])
        if self._last is None or not 1 <= number <= self._last.number:
            expected = "a state" if self._last is None else f"one of the states 1 to {self._last.number}"
            raise self._source.error(f"'{back[0][:40]}'", expected)
        action, _, location = parse_action_label(back[2] or back[4] or "")
        self._last = None
        return TraceEnd(InfiniteEnding(number, action, location))

    def _error(self, number: int, message: str) -> Iterator[TraceEvent]:
        self._tool_error = False  # only the first line of a message is needed
        if _TRACE_BEGINS.match(message):
            return
        yield from self._end()
        self._problem = message.strip()
        if _INITIAL_STATE_VIOLATION.fullmatch(message):
            yield self._head()
            self._heading, self._number = "", 1
            self._text.begin(number)

    def _head(self) -> TraceHead:
        self._index += 1
        self._shows_only_changes = self._shows_unchanged = self._is_last = False
        problem, self._problem = self._problem, None
        violated = _VIOLATION_MESSAGE.fullmatch(problem or "")
        name = violated and (violated[1] or violated[2])
        return TraceHead(self._source.file, self._index, TLC_LOG, name or None, problem)

    def _state(self) -> TraceState:
        text, last = self._text, self._last
        text.end_value()
        if last is not None and self._number > last.number + 1 and text.variables.keys() != last.variables.keys():
            lacks = min(text.variables.keys() ^ last.variables.keys())
            expected = f"all variables in the first state after those left out, found other ones: '{lacks}'"
            raise self._source.error(f"state {self._number} after state {last.number}", expected, line=text.line)
        if last is not None:
            self._check_difference(last)
            text.complete(last)
        elif not text.variables:
            raise self._source.error("a state without variables", "'/\\ name = value'", line=text.line + 1)
        state = text.state(self._number, self._heading)
        self._last, self._heading = state, None
        return state

    def _check_difference(self, last: TraceState) -> None:
        """Check that the trace shows all variables in every state or, with ``-difftrace``, only changed variables.

        Even with ``-difftrace`` TLC shows all variables of the last state of an invariant's violation.
        """
        before = dict(zip(last.variables, last.fingerprints, strict=True))
        shown = dict(zip(self._text.variables, self._text.fingerprints, strict=True))
        missing = before.keys() - shown.keys()
        shows_unchanged = any(before.get(name) == fingerprint for name, fingerprint in shown.items())
        if self._is_last:
            expected = "that state to be the last, as the others show only what changed"
            raise self._source.error("a state after one that shows all variables", expected, line=self._text.line)
        if self._shows_only_changes and shows_unchanged and not missing:
            self._is_last = True
            return
        self._shows_only_changes |= bool(missing)
        self._shows_unchanged |= shows_unchanged
        if self._shows_only_changes and self._shows_unchanged:
            found = f"a state without '{min(missing)}'" if missing else "a state with variables that did not change"
            expected = "all variables in every state, or what changed in every state"
            raise self._source.error(found, expected, line=self._text.line)

    def _end(self, ending: InfiniteEnding | None = None) -> Iterator[TraceEvent]:
        if self._last is not None:
            self._last = None
            yield TraceEnd(ending)

    def _is_unreadable(self, text: str) -> bool:
        """Whether a line right after a state's variables is damaged, rather than the next message."""
        outside = (_TOOL_MESSAGE_MARK, _STATE_HEADING, _BACK_TO_STATE_LINE, _ERROR_LINE, _LINE_WITHOUT_WORDS)
        return not any(pattern.fullmatch(text) for pattern in outside) and not _LINE_AFTER_TRACES.match(text)

    def _cut_short(self) -> Iterator[TraceEvent]:
        """Yield the state at the end of the file, unless it may be incomplete."""
        self._text.end_value()
        if self._last is None:
            raise self._source.at_end("the rest of the first state, and an empty line")
        if self._source.ends_in_newline and self._last.variables.keys() == self._text.variables.keys():
            yield self._state()


def trace_as_tlc_text(trace: Trace, *, style: TlcVersionStyle = "tlc", sort: bool = True) -> Iterator[str]:
    """Yield the text of a trace as TLC prints it, state by state."""
    trace.require_types()
    problem = trace.problem or (f"Invariant {trace.violated} is violated." if trace.violated else None)
    if problem:
        yield f"Error: {problem}\n"
    yield "Error: The behavior up to this point is:\n"
    for state in trace.states:
        label = (
            "Initial predicate" if state.number == 1 else _heading_label(state.action, state.parameters, state.location)
        )
        yield f"State {state.number}: <{label}>\n{state_text(state.variables, style=style, sort=sort)}\n\n"
    if trace.ending is not None:
        if trace.ending.back_to is None:
            yield f"State {len(trace.states) + 1}: Stuttering\n"
        else:
            label = _heading_label(trace.ending.action, None, trace.ending.location)
            yield f"Back to state {trace.ending.back_to}: <{label}>\n\n"


def state_text(variables: Mapping[str, Value], *, style: TlcVersionStyle = "tlc", sort: bool = True) -> str:
    """Return a state as TLC prints it: a conjunct for each variable."""
    mark = "/\\ " if len(variables) > 1 else ""  # TLC omits it for a single variable
    texts = {name: format_value(value, style=style, sort=sort) for name, value in variables.items()}
    return "\n".join(f"{mark}{name} = {text}" for name, text in texts.items())


def _heading_label(action: str | None, parameters: str | None, location: ActionLocation | None) -> str:
    name = action or "Action"
    return name + (f"({parameters})" if parameters is not None else "") + (f" {location}" if location else "")
