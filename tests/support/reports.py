"""Results for reports: of any length, and with text of strangers in every place."""

from __future__ import annotations

from random import Random
from typing import Any

EVIL = (
    "</script><img src=x onerror=alert(1)>\u2028\u2029\n# @me ```\n%%{init: {}}%% end; `javascript:alert(1)` "
    '" onload="alert(2)" ]]> -->  &lt;b&gt; {{script}} \\u003c \u202e\x00\ud800'
)
NAMES = ("number", "spent", "copies", "sent", "until", "is_copy")
KEEP = ("fate", "result", "actor", "by", "source", "dest", "replicas")


def made_up(steps: int, *, replicas: int = 3, messages: int = 12) -> dict[str, Any]:
    """Return a run with a counterexample, as `search_as_report_data` would.

    Parameters
    ----------
    steps
        Its states.
    replicas
        Its replicas, which act in turn.
    messages
        How many are sent; of every five, one is lost, one is still under way.
    """
    names = [f"n{number}" for number in range(1, replicas + 1)]
    kinds = ("VoteRequest", "VoteResponse", "FetchRequest", "FetchResponse")
    flows = []
    for number in range(messages):
        sent = 2 + number * max(1, steps - 3) // max(1, messages)
        until = min(steps, sent + 1 + number % 4)
        fate = {3: "lost", 4: "under way"}.get(number % 5, "delivered")
        source, dest = names[number % replicas], names[(number + 1 + number % (replicas - 1)) % replicas]
        flows.append(
            {
                "message": {"_type": kinds[number % 4], "epoch": number, "source": source, "dest": dest},
                "type": kinds[number % 4],
                "source": source,
                "dest": dest,
                "sent": sent,
                "fate": fate,
                "until": None if fate == "under way" or until == sent else until,
                "is_copy": number % 11 == 0,
            }
        )
        if flows[-1]["until"] is None:
            flows[-1]["fate"] = "under way"
    states = [_state(number, names, flows) for number in range(1, steps + 1)]
    why = {
        "says": "No two replicas lead.",
        "false_of": {"me": "n1", "peer": "n2"},
        "place": {"file": "m.py", "line": 3},
    }
    trace = {
        "property": "OneLeader",
        "end": "violates OneLeader",
        "why": why,
        "states": states,
        "flows": flows,
        "bounds": {"crashes": ["MaxCrashes", "1"]},
    }
    return {
        "model": "made-up",
        "variant": None,
        "configuration": "default",
        "result": "violation",
        "checked": ["OneLeader"],
        "violations": ["OneLeader"],
        "complete": False,
        "constants": {"Hosts": names, "Flag": True},
        "distinct_states": 1234,
        "actions": {"Act1": 1, "Never": 0},
        "never_enabled": ["Never"],
        "notes": ["a note"],
        "warnings": ["a warning"],
        "seconds": 0.1,
        "traces": [trace],
    }


def _state(number: int, names: list[str], flows: list[dict[str, Any]]) -> dict[str, Any]:
    actor = None if number == 1 else names[number % len(names)]
    taken = next((flow["message"] for flow in flows if flow["until"] == number and flow["fate"] == "delivered"), None)
    replicas = {
        name: {
            "_type": "Replica",
            "id": name,
            "epoch": (number + place) // len(names),
            "leader": "Nil",
            "votes": [],
            "log": [{"_type": "Entry", "epoch": entry, "value": "v1"} for entry in range(min(5, number // 4))],
        }
        for place, name in enumerate(names)
    }
    return {
        "number": number,
        "action": None if number == 1 else f"Act{number % 7}",
        "actor": actor,
        "by": actor or "the environment",
        "on": taken,
        "replicas": replicas,
        "shared": {"_type": "Shared", "total": number // 3},
        "spent": {"crashes": number // 1000},
        "changes": [] if number == 1 else [{"what": f"{actor}.epoch", "how": f"{number - 1} -> {number}"}],
        "messages": [],
    }


def with_text(value: Any, text: str, key: str | None = None) -> Any:
    """Return a run with a text in the place of every text, and of every name of a field, that a trace brings."""
    if isinstance(value, dict):
        if key == "replicas":
            return {f"{text}{name}": with_text(item, text) for name, item in value.items()}
        return {
            (text if key in ("message", "on", "constants") and name != "_type" else name): with_text(item, text, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [with_text(item, text, key) for item in value]
    if not isinstance(value, str) or key in ("fate", "result"):
        return value
    return f"{text}{value}" if key in ("actor", "by", "source", "dest") else text


PIECES = (
    EVIL,
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "<!-- <script>",
    "javascript:window.hacked=1",
    "' onmouseover=window.hacked=1 '",
    "<style>*{display:none}</style>",
    "__proto__",
    "constructor",
    "toString",
    "<iframe srcdoc='<script>parent.hacked=1</script>'>",
    "\u202egnp.exe",
    "long" * 300,
    "W" * 4_000,
    "\n\r\t\x0b\x00",
    "\ud800",
    "𝕏👩‍👩‍👧‍👦é" * 20,
    "",
    " ",
    "#step-1",
    "url(http://127.0.0.1:9/x)",
    "{{data}}",
    "$&$1\\1",
)


def hostile(value: Any, random: Random, key: str | None = None) -> Any:
    """Return a run with hostile text in some places: names, values, actions, constants."""
    if isinstance(value, dict):
        is_free = key in ("message", "on", "constants", "replicas", "actions", "shared")
        return {
            (_mixed(name, random) if is_free and name != "_type" else name): hostile(item, random, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [hostile(item, random, key) for item in value]
    if isinstance(value, str) and key != "fate":
        return _mixed(value, random)
    return value


def _mixed(text: str, random: Random) -> str:
    """Return a text, or one from strangers in its place, before it or behind it."""
    piece = random.choice(PIECES)
    return random.choice([text, text, piece, text + piece, piece + text])
