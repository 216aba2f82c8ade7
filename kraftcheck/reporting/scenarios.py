r"""Scenarios: text files of commands with their recorded output.

A scenario is for readers who know the KIP but not the code. It is a list of blocks: commands, a line `----`, and the
output of the commands up to the next blank line. Comments (lines that begin with `#`) and blank lines may stand between
blocks. `tests/scenarios` fails if the model's output differs from the recorded output.

    # A candidate asks for votes.
    RequestVote by n2
    ----
    RequestVote by n2
        n2.state          Follower -> Candidate
        n2.current_epoch  1 -> 2
        + RequestVoteRequest  n2 -> n1  epoch=2

To write a scenario, write the commands, each followed by `----`, and run

    KRAFTCHECK_REWRITE_SCENARIOS=1 pytest tests/scenarios

which fills in the output. Then check the output against the KIP.

The commands:

start MODEL [variant=NAME] [config=NAME] [at=START] [bounds=N] [CONSTANT=VALUE ...]
    The first command. Start in the initial state of a model or variant, with a configuration (default: `smoke`) and
    other values for constants. `bounds` sets every other bound. `at` is one of the model's named starts. With several
    initial states, start in the first that fits `-> PATH=VALUE ...`.
ACTION [by ID] [on MESSAGE] [from ID] [to ID] [FIELD=VALUE ...] [-> PATH=VALUE ...]
    Take the step of an action. `by` is the acting replica. `on`, `from`, `to` and FIELD describe the delivered message,
    or for an action without one a message that it sends. After the step, PATH has VALUE: a field of the acting replica
    (`leader=n2`), of another replica (`n2.log`), or of the shared state (`shared.acked`). Exactly one step must fit.
    The output has the changes, then the message consumed (-) or delivered and kept (*), and the messages sent (+).
briefly ACTION ...
    The same with one line of output. `briefly settle` works too.
deliver [MESSAGE ...] [to ID] [from ID]
    Deliver the messages under way of these types, one by one in their canonical order, until no replica takes one. `to`
    and `from` restrict receiver and sender. The output is one line per message.
settle [among ID ...] [until MESSAGE]
    Deliver the messages under way (between these replicas) and the messages sent in response, in turns. Stop if none is
    left, if the states repeat (all replicas have caught up and only fetch), or once a message of this type is under
    way.
    The output is the total change.
cannot ACTION [by ID] [on MESSAGE] [from ID] [to ID] [FIELD=VALUE ...] [-> PATH=VALUE ...]
    Check that no such step is enabled. The output is the failed condition of the model.
hide FIELD ...
    Leave out these fields from here on: of replicas (`flushed`), messages (`request`), and the shared state
    (`shared.elected`).
show [PATH ...]
    Show a replica (`n1`: its non-default fields), a field (`n1.log`, `shared.acked`), or every message under way
    (`show messages`).
property NAME ...
    Show whether properties hold in the current state or over the last step.

Values are written as in counterexamples: `TRUE`, `{n1, n2}`, `Candidate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kraftcheck.catalogue import scenario_model_and_config
from kraftcheck.reporting.counterexample import (
    message_columns,
    messages_around_step,
    non_default_fields_text,
    state_changes,
)
from kraftcheck.spec.cfg.binding import bind_leniently
from kraftcheck.spec.errors import unknown_name_message
from kraftcheck.spec.language.protocol import Protocol
from kraftcheck.spec.language.semantics import Semantics, Transition
from kraftcheck.spec.language.state import State
from kraftcheck.spec.values import Record, field_names, ordered, text_of
from kraftcheck.traces.scenarios import (
    CommandsWithOutput,
    ScenarioError,
    ScenarioPlayer,
    blocks_as_text,
    command_for_step,
    parse_start_arguments,
    parse_step_description,
    quoted_word,
    split_command_words,
    words_selecting_initial_state,
)

STEP_INDENT = "    "


def walk_as_scenario(
    protocol: type[Protocol], words: Sequence[str], init: str, state: State, steps: Iterable[Transition]
) -> str:
    """Return a walk from an initial state as the text of a scenario, with one block per step.

    `words` are the arguments of `start`: the model's name and its settings.
    """
    running = ScenarioRun(protocol)
    start = " ".join(["start", *map(quoted_word, words)])
    running.run(start)
    then = words_selecting_initial_state(running.stage, init, state)
    start = " ".join([start, *(["->", *then] if then else [])])
    blocks = [CommandsWithOutput(1, [f"# A walk through {words[0]}."], [start], running.run(start))]
    for step in steps:
        command = command_for_step(running.stage, step)
        blocks.append(CommandsWithOutput(1, [], [command], running.run(command)))
    return blocks_as_text(blocks, [])


class ScenarioRun:
    """Executes the commands of a scenario and renders their output."""

    def __init__(self, protocol: type[Protocol] | None = None) -> None:
        self._protocol = protocol  # of a walk: a user's file that is loaded again has other classes of values
        self._staged: ScenarioPlayer | None = None
        self._before: tuple[State, Transition] | None = None
        self._hidden: set[str] = set()

    def run(self, command: str) -> list[str]:
        """Execute a command and return its output."""
        verb, *rest = split_command_words(command)
        verbs: dict[str, Callable[[list[str]], Iterator[str]]] = {
            "start": self._start,
            "briefly": self._briefly,
            "deliver": self._deliver,
            "settle": self._settle,
            "cannot": self._cannot,
            "hide": self._hide,
            "show": self._show,
            "property": self._property,
        }
        if verb in verbs:
            return list(verbs[verb](rest))
        if not verb[0].isupper():
            raise ScenarioError(f"{unknown_name_message('command', verb, verbs, 'a scenario')}, or an action")
        return self._go(self.stage.chosen(parse_step_description([verb, *rest])))

    @property
    def stage(self) -> ScenarioPlayer:
        """The model and the current state."""
        if self._staged is None:
            raise ScenarioError("expected `start` as the first command")
        return self._staged

    @property
    def _semantics(self) -> Semantics:
        return self.stage.semantics

    @property
    def _state(self) -> State:
        return self.stage.state

    # The commands

    def _start(self, given: list[str]) -> Iterator[str]:
        start = parse_start_arguments(given)
        model, config = scenario_model_and_config(start)
        bound, _ = bind_leniently(self._protocol or model.protocol, config, whole_space=False)
        self._staged = ScenarioPlayer(Semantics(bound.protocol), self._rendered)
        self._hidden = set()
        self._before = None
        self._staged.begin(start.at or bound.init, start.then)
        for key in ordered(self._state.replicas):
            yield f"{text_of(key)}: {self._shown(self._state.replicas[key])}"

    def _briefly(self, given: list[str]) -> Iterator[str]:
        if given[0] == "settle":
            yield next(iter(self._settle(given[1:])))
        else:
            yield self._go(self.stage.chosen(parse_step_description(given)))[0]

    def _go(self, transition: Transition) -> list[str]:
        shown = list(self._rendered(transition))
        self._before, self.stage.state = (self._state, transition), transition.target
        return shown

    def _deliver(self, given: list[str]) -> Iterator[str]:
        for transition in self.stage.deliver(given):
            yield self._go(transition)[0]

    def _settle(self, given: list[str]) -> Iterator[str]:
        before = self._state
        for transition in self.stage.settle(given):
            self._go(transition)
        among = given[1:] if given[:1] == ["among"] else []
        among = among[: among.index("until")] if "until" in among else among
        yield f"messages{' among ' if among else ''}{', '.join(among)} are delivered"
        yield from list(self._changed(before, self._state)) or [f"{STEP_INDENT}nothing changes"]

    def _cannot(self, given: list[str]) -> Iterator[str]:
        ask = parse_step_description(given)
        fitting = self.stage.fitting(ask)
        if fitting:
            raise ScenarioError(f"this step is possible: {self.stage.heading(fitting[0])}")
        yield from self.stage.refusals(ask)

    def _hide(self, given: list[str]) -> Iterator[str]:
        kinds = [type(replica) for replica in self._state.replicas.values()]
        kinds += [kind for action in self._semantics.protocol.actions.values() for kind in action.messages]
        known = {name for kind in kinds for name in field_names(kind)}
        known |= {f"shared.{name}" for name in field_names(type(self._state.shared))}
        for name in given:
            if name not in known:
                raise ScenarioError(unknown_name_message("field", name, known, "the model"))
        self._hidden |= set(given)
        yield from ()

    def _is_shown(self, path: str) -> bool:
        """Whether to show a change at a path: not for bounds and hidden fields."""
        names = [name.partition("[")[0] for name in path.split(".")]
        return not path.startswith("spent ") and not {".".join(names[:2]), *names[1:2]} & self._hidden

    def _show(self, given: list[str]) -> Iterator[str]:
        for path in given:
            if path == "messages":
                under_way = messages_around_step(self._semantics.network, None, self._state, None)
                lines = self._message_lines([(" ", found.message) for found in under_way])
                yield from lines if under_way else ["none"]
                continue
            value = self.stage.at(path)
            yield f"{path}: {self._shown(value) if isinstance(value, Record) and '.' not in path else text_of(value)}"

    def _property(self, given: list[str]) -> Iterator[str]:
        for name in given:
            known = self._semantics.protocol.properties
            if name not in known:
                raise ScenarioError(unknown_name_message("property", name, known, self._semantics.protocol.name()))
            prop = known[name]
            if prop.over_steps:
                semantics, before = self._semantics, self._before
                holds = semantics.step_satisfies(prop, *before) if before else semantics.begins(prop, self._state)
            else:
                holds = self._semantics.holds(prop, self._state)
            yield f"{name} {'holds' if holds else 'is violated'}"

    # Rendering

    def _rendered(self, transition: Transition) -> Iterator[str]:
        yield self.stage.heading(transition)
        before, after = self._state, transition.target
        if before == after:
            yield f"{STEP_INDENT}nothing changes"
            return
        yield from self._changed(before, after)
        marked = messages_around_step(self._semantics.network, before, after, transition.message)
        yield from self._message_lines([(m.mark, m.message) for m in marked if m.mark != " "])

    def _message_lines(self, marked: list[tuple[str, Record]]) -> Iterator[str]:
        texts = [(mark, *message_columns(message, self._hidden)) for mark, message in marked]
        kinds, ways = (max((len(text[column]) for text in texts), default=0) for column in (1, 2))
        for mark, kind, way, rest in texts:
            yield f"{STEP_INDENT}{mark} {kind:{kinds}}  {way:{ways}}  {rest}".rstrip()

    def _shown(self, replica: Record) -> str:
        """Return a replica's non-default fields as text."""
        return non_default_fields_text(replica, self._hidden) or f"a new {type(replica).__name__}"

    def _changed(self, before: State, after: State) -> Iterator[str]:
        """Yield the changes between two states, without messages."""
        found = [c for c in state_changes(self._semantics.protocol, before, after) if self._is_shown(c.path)]
        width = max((len(change.path) for change in found), default=0)
        for change in found:
            yield f"{STEP_INDENT}{change.path:{width}}  {change.text}"
