"""Trials of many mutants, each in a process of its own, several in parallel; verdicts are saved in a folder."""

from __future__ import annotations

import gc
import json
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.checkpoint import identity_of_search
from kraftcheck.mutation.mutants import Mutant
from kraftcheck.mutation.trial import ERROR, UNREACHED, VERDICT_MEANINGS, MutantRunner, MutantVerdict
from kraftcheck.persistence.folder import BatchFolder, read_batch_note, write_batch_note
from kraftcheck.processes import InterruptHandler, die_with_parent
from kraftcheck.spec.errors import InputError

POLL_SECONDS = 0.2
"""Seconds between two checks of the time and of an interruption."""


TIMEOUT_TEXT = "was not judged within"
"""Text about a mutant that took too long; the seconds follow."""


VERDICT_NOTE_SHAPE = {
    "mutant": str,
    "verdict": {
        "verdict": str,
        "by": str,
        "config": str,
        "length": int,
        "gains": bool,
        "lost": [str],
        "step": str,
        "counts": [(str, int, int, int, int)],
    },
}
"""Shape of a saved verdict: see `require_json_shape`."""


class VerdictFolder(BatchFolder):
    """Folder of the verdicts so far, with a file for each mutant."""

    OPTION = "--checkpoint"
    OTHER = "it has verdicts on another model, or in other configurations"

    def verdicts(self) -> dict[str, MutantVerdict]:
        """Return the saved verdicts, by name of the mutant."""
        found = {}
        for file in self.note_files():
            note = read_batch_note(file, VERDICT_NOTE_SHAPE)
            if note["verdict"]["verdict"] not in VERDICT_MEANINGS:
                raise InputError(
                    f"{file}: expected {', '.join(VERDICT_MEANINGS)}, found {note['verdict']['verdict']!r}"
                )
            found[note["mutant"]] = verdict_from_json(note["verdict"])
        return found

    def note(self, mutant: Mutant, verdict: MutantVerdict) -> None:
        """Save a verdict."""
        number = len(self.note_files()) + 1
        write_batch_note(self.note_file(self.path, number), {"mutant": mutant.name, "verdict": verdict._asdict()})


def verdict_from_json(note: dict[str, Any]) -> MutantVerdict:
    """Return a verdict from its JSON form."""
    counts = tuple(tuple(count) for count in note["counts"])
    return MutantVerdict(**(note | {"lost": tuple(note["lost"]), "counts": counts}))


def identity_of_mutation_run(jobs: Sequence[SearchJob]) -> dict[str, Any]:
    """Return the identity of a mutation run, which must be the same for all runs over one folder."""
    about = [identity_of_search(job.protocol, job.options) for job in jobs]
    searched = {
        f"configuration {job.config_name}": str(
            {name: value for name, value in found.items() if name not in ("model", "source")}
            | {"max_states": job.options.max_states, "max_depth": job.options.max_depth}
        )
        for job, found in zip(jobs, about, strict=True)
    }
    return {"model": about[0]["model"], "source": about[0]["source"], **searched}


class _RunningProcess(NamedTuple):
    mutant: Mutant
    process: BaseProcess
    end: Connection
    until: float


class MutantWorkers:
    """Tries mutants in parallel."""

    def __init__(self, judge: MutantRunner, processes: int, seconds: float) -> None:
        self._judge = judge
        self._processes = processes
        self._seconds = seconds
        self._context = multiprocessing.get_context("fork")
        self._running: list[_RunningProcess] = []

    def judged(self, mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, MutantVerdict]]:
        """Yield mutants with their verdicts, in the order of completion."""
        frozen = gc.get_freeze_count()
        gc.collect()
        gc.freeze()  # memory that the processes share stays shared
        waiting = list(reversed(list(mutants)))
        try:
            with InterruptHandler() as interruption:
                while (waiting or self._running) and not interruption.asked:
                    while waiting and len(self._running) < self._processes:
                        mutant = waiting.pop()
                        if self._judge.reached_in(mutant):
                            self._start(mutant)
                        else:
                            yield mutant, MutantVerdict(UNREACHED)
                    yield from self._ended()
            if interruption.asked:
                raise KeyboardInterrupt
        finally:
            if not frozen:  # else the caller's objects would be traversed again
                gc.unfreeze()
            for one in self._running:
                _stop_process(one.process)

    @property
    def _too_long(self) -> str:
        return f"{TIMEOUT_TEXT} {self._seconds:g} s"

    def may_judge(self, verdict: MutantVerdict) -> bool:
        """Whether a mutant is to be tried again: its trial ran out of time under another time limit."""
        return verdict.by.startswith(TIMEOUT_TEXT) and verdict.by != self._too_long

    def _start(self, mutant: Mutant) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_judge_in_child, args=(self._judge, mutant, theirs), daemon=True)
        process.start()
        theirs.close()
        self._running.append(_RunningProcess(mutant, process, ours, time.monotonic() + self._seconds))

    def _ended(self) -> Iterator[tuple[Mutant, MutantVerdict]]:
        ready = wait([one.end for one in self._running], POLL_SECONDS)
        for one in [*self._running]:
            verdict = None
            if one.end in ready:
                try:
                    verdict = verdict_from_json(json.loads(one.end.recv_bytes()))
                except EOFError:
                    one.process.join()
                    verdict = MutantVerdict(ERROR, f"the process ended by itself ({one.process.exitcode})")
            elif time.monotonic() > one.until:
                verdict = MutantVerdict(ERROR, self._too_long)
            if verdict is not None:
                self._running.remove(one)
                _stop_process(one.process)
                yield one.mutant, verdict


def _judge_in_child(judge: MutantRunner, mutant: Mutant, end: Connection) -> None:
    """Try one mutant; the parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    die_with_parent()
    end.send_bytes(json.dumps(judge.judge(mutant)._asdict()).encode())


def _stop_process(process: BaseProcess) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    process.join()


def judge_mutants(
    workers: MutantWorkers, mutants: list[Mutant], folder: VerdictFolder | None, step: Callable[[int], object]
) -> dict[str, MutantVerdict]:
    """Try the mutants without a verdict in the folder; return all verdicts, or those before an interruption."""
    known = {} if folder is None else folder.verdicts()
    known = {name: verdict for name, verdict in known.items() if not workers.may_judge(verdict)}
    found = {mutant.name: known[mutant.name] for mutant in mutants if mutant.name in known}
    step(len(found))
    with suppress(KeyboardInterrupt):
        for mutant, verdict in workers.judged(mutant for mutant in mutants if mutant.name not in found):
            found[mutant.name] = verdict
            if folder is not None:
                folder.note(mutant, verdict)
            step(len(found))
    return found
