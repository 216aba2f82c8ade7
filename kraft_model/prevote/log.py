"""Rules of `prevote` about configurations in logs. Offsets count from 1, as in the specification.

Source: module kraft_kip_996_functions of the TLA+ specification kraft_kip_996. Rules about logs that hold anything are
those of `kraftcheck.kraft_model.reconfig.log`.
"""

from __future__ import annotations

from kraftcheck.kraft_model.prevote.records import AddedVoter, Command, Config, Entry, InitialMembers, RemovedVoter

Log = tuple[Entry, ...]


def config_at(offset: int, value: InitialMembers | AddedVoter | RemovedVoter, hwm: int) -> Config:
    """Return a configuration; it is committed once the high watermark covers its offset (`ConfigFor`)."""
    return Config(value.id, value.members, hwm >= offset)


def most_recent_config(log: Log, hwm: int) -> Config:
    """Return the last configuration of a log as a server caches it (`MostRecentReconfigEntry`, `ConfigFor`)."""
    for offset in range(len(log), 0, -1):
        value = log[offset - 1].value
        if isinstance(value, InitialMembers | AddedVoter | RemovedVoter):
            return config_at(offset, value, hwm)
    raise ValueError("the log holds no configuration")


def appended_in(log: Log, epoch: int) -> int:
    """Return how many clients' values a log holds that were appended in an epoch."""
    return sum(entry.epoch == epoch and entry.command is Command.APPEND for entry in log)
