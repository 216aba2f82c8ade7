"""Explanations of disabled actions in a state.

>>> from kraftcheck.spec.examples.two_phase_commit import TwoPhaseCommit
>>> from kraftcheck.spec.language.semantics import Semantics
>>> from kraftcheck.spec.values import ModelValue
>>> semantics = Semantics(TwoPhaseCommit(resource_managers=frozenset({ModelValue("rm1")})))
>>> state = semantics.initial()[0]
>>> print(explain_action_as_text(semantics, state, "HearPrepared"))
HearPrepared is not enabled:
  tm: no Prepared is under way to it
>>> explain_action(semantics, state, "Prepare")[0].kind
'enabled'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kraftcheck.spec.diagnosis.source import find_ending_guard, trace_call
from kraftcheck.spec.errors import InputError, unknown_name_message
from kraftcheck.spec.language.declarations import Action
from kraftcheck.spec.language.semantics import DisabledStepReason, Semantics, call_action
from kraftcheck.spec.language.state import State, Step
from kraftcheck.spec.values import Record, Value, ordered, text_of, truncate_text

ENABLED_KIND = "enabled"
MAX_MESSAGE_TEXT_LENGTH = 120
"""Maximum length of a message's text."""


@dataclass(frozen=True)
class ActionExplanation:
    """The explanation of an action for one replica and one message: the reason why it is disabled, or "enabled"."""

    # "enabled"; "guard": a condition of the action is false; "bound": a bound is exhausted; "network": the network
    # refuses a message; "no message": none is in flight; "no replica": none can take the action; "not receiving": the
    # replica receives no messages
    kind: str
    text: str  # the reason: "me.role is not Role.VOTER (me.role = Observer)"
    actor: Value = None  # the id of the replica, or None
    message: Record | None = None  # the message, or None
    file: str | None = None  # the place of the reason; None if it is not in the action
    line: int | None = None

    def __str__(self) -> str:
        place = f", {relative_path(self.file)}:{self.line}" if self.file is not None else ""
        return f"{'' if self.kind == ENABLED_KIND else 'not enabled: '}{self.text}{place}"


def explain_action(
    semantics: Semantics, state: State, action_name: str, actor: Value = None, message: Record | None = None
) -> list[ActionExplanation]:
    """Return an explanation of an action for every replica and message in a state."""
    network_actions = semantics.network.own_actions()
    action = semantics.protocol.actions.get(action_name)
    if action is not None:
        return list(_explanations_of_action(semantics, state, action, actor, message))
    if action_name in network_actions:
        return list(_explanations_of_network_action(semantics, state, action_name, actor, message))
    known = [*semantics.protocol.actions, *network_actions]
    raise InputError(unknown_name_message("action", action_name, known, semantics.protocol.name()))


def explain_action_as_text(
    semantics: Semantics, state: State, action_name: str, actor: Value = None, message: Record | None = None
) -> str:
    """Return the explanations of `explain_action` as text, without duplicates."""
    return action_explanations_text(action_name, explain_action(semantics, state, action_name, actor, message))


def action_explanations_text(action_name: str, reasons: list[ActionExplanation]) -> str:
    """Return explanations of an action as text, without duplicates."""
    enabled = any(reason.kind == ENABLED_KIND for reason in reasons)
    asked = [reason for reason in reasons if (reason.kind == ENABLED_KIND) == enabled]
    lines: dict[str, list[str]] = {}
    for reason in asked:
        place = f", {relative_path(reason.file)}:{reason.line}" if reason.file is not None and not enabled else ""
        lines.setdefault(reason.text + place, []).append(_actor_and_message_text(reason))
    head = f"{action_name} is enabled:" if enabled else f"{action_name} is not enabled:"
    return "\n".join([head, *[_explanation_line(who, text) for text, who in lines.items()]])


def _explanation_line(who: list[str], text: str) -> str:
    named = [name for name in who if name]
    return f"  {'; '.join(named)}: {text}" if named else f"  {text}"


def _actor_and_message_text(reason: ActionExplanation) -> str:
    actor = text_of(reason.actor) if reason.actor is not None else ""
    return (
        f"{actor} on {truncate_text(text_of(reason.message), MAX_MESSAGE_TEXT_LENGTH)}"
        if reason.message is not None
        else actor
    )


def _explanations_of_action(
    semantics: Semantics, state: State, action: Action, actor: Value, message: Record | None
) -> Iterator[ActionExplanation]:
    if action.kind == "environment":
        yield _explanation_by_traced_call(semantics, state, action, None, None)
        return
    acting = [key for key in ordered(state.replicas) if isinstance(state.replicas[key], action.actors)]
    if actor is not None and actor not in acting:
        yield ActionExplanation(
            "no replica", f"{_actor_description(actor, state)}: {_allowed_actors_text(action)}", actor
        )
        return
    if not acting:
        yield ActionExplanation("no replica", f"there is none: {_allowed_actors_text(action)}")
    for key in acting if actor is None else [actor]:
        if action.kind == "internal":
            yield _explanation_by_traced_call(semantics, state, action, key, None)
        else:
            yield from _explanations_of_delivery(semantics, state, action, key, message)


def _actor_description(actor: Value, state: State) -> str:
    name = text_of(actor)
    there = state.replicas.get(actor)
    return f"there is no replica {name}" if there is None else f"{name} is a {type(there).__name__}"


def _allowed_actors_text(action: Action) -> str:
    kinds = " or ".join(f"a {cls.__name__}" for cls in action.actors)
    return f"{action.name} is taken by {'any replica' if kinds == 'a Record' else kinds}"


def _explanations_of_delivery(
    semantics: Semantics, state: State, action: Action, key: Value, message: Record | None
) -> Iterator[ActionExplanation]:
    network = semantics.network
    under_way = network.deliverable(state.inboxes.get(key, network.empty))
    found = [m for m in under_way if isinstance(m, action.messages) and message in (None, m)]
    if not found:
        kinds = " or ".join(cls.__name__ for cls in action.messages)
        if message is None:
            yield ActionExplanation("no message", f"no {kinds} is under way to it", key)
        elif isinstance(message, action.messages):
            yield ActionExplanation("no message", "that message is not under way to it", key, message)
        else:
            yield ActionExplanation("no message", f"{action.name} is taken on {kinds}", key, message)
    for delivered in found:
        if semantics.protocol.receives(state.replicas[key], delivered):
            yield _explanation_by_traced_call(semantics, state, action, key, delivered)
        else:
            yield ActionExplanation("not receiving", "it receives no messages in this state", key, delivered)


def _explanation_by_traced_call(
    semantics: Semantics, state: State, action: Action, key: Value, message: Record | None
) -> ActionExplanation:
    """Return the `ActionExplanation` for one replica and message, from a traced call of the action."""
    me = state.replicas[key] if key is not None else None
    context = semantics.context(state, action, {})
    code = action.function.__code__
    steps, traced = trace_call(code, lambda: call_action(semantics.protocol, action, me, message, context))
    if not steps:
        guard = find_ending_guard(traced)
        return ActionExplanation("guard", guard.text or "it yields no step here", key, message, guard.file, guard.line)
    refusals: list[DisabledStepReason] = []
    for step in steps:
        result = semantics.apply(state, key, message, step)
        if isinstance(result, State):
            return ActionExplanation(ENABLED_KIND, "enabled", key, message, code.co_filename, code.co_firstlineno)
        refusals.append(_refusal_naming_refused_message(semantics, state, step, result))
    text = "; ".join(dict.fromkeys(refusal.reason for refusal in refusals))
    line = traced.ends[-2] if len(traced.ends) > 1 else traced.end  # of the last yield
    kind = "bound" if refusals[0].kind == "bound" else "network"
    return ActionExplanation(kind, text, key, message, code.co_filename, line)


def _refusal_naming_refused_message(
    semantics: Semantics, state: State, step: Step, refusal: DisabledStepReason
) -> DisabledStepReason:
    """Return `refusal`; if the network refused a message, with the text of that message."""
    if refusal.kind != "network":
        return refusal
    for operation, sent in step.sends:
        inbox = state.inboxes.get(sent.dest, semantics.network.empty)
        if semantics.network.apply(operation, inbox, sent) is None:
            verb = "given as a reply" if operation == "reply" else "sent"
            return DisabledStepReason(
                "network",
                f"{truncate_text(text_of(sent), MAX_MESSAGE_TEXT_LENGTH)} was {verb} before, and may be sent only once",
            )
    return refusal


def _explanations_of_network_action(
    semantics: Semantics, state: State, name: str, actor: Value, message: Record | None
) -> Iterator[ActionExplanation]:
    """Yield an explanation of a network action for every message in flight."""
    network, none = semantics.network, True
    for key in ordered(state.inboxes):
        if actor not in (None, key):
            continue
        inbox = state.inboxes[key]
        steps = {step.message: step for step in network.own_steps(inbox) if step.action == name}
        for found in network.deliverable(inbox):
            if message not in (None, found):
                continue
            none = False
            step = steps.get(found)
            if step is None:
                yield ActionExplanation("network", "the network refuses a second copy of it", key, found)
                continue
            result = semantics.apply(state, None, None, Step(spends=step.spends))
            if isinstance(result, DisabledStepReason):
                yield ActionExplanation("bound", result.reason, key, found)
            else:
                yield ActionExplanation(ENABLED_KIND, "enabled", key, found)
    if none:
        text = "no message is under way" if message is None else "that message is not under way"
        yield ActionExplanation("no message", text, actor, message)


def relative_path(file: str | None) -> str:
    """Return a file's path, relative to the current folder if inside it."""
    path = Path(file or "")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
