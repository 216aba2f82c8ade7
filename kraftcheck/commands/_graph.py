"""The state graph of `check --graph`: of the whole search, or around a counterexample."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kraftcheck.catalogue import SearchJob
from kraftcheck.explorer.graph import (
    MOST_WRITTEN_STATES,
    PARQUET_ENDING,
    describe_graph_size_or_raise,
    graph_around_behaviour,
    graph_writer,
    search_with_graph,
)
from kraftcheck.explorer.request import SearchRequest
from kraftcheck.explorer.result import Result
from kraftcheck.reporting.lines import note_lines, print_lines
from kraftcheck.runner import run_job
from kraftcheck.spec.errors import InputError
from kraftcheck.spec.language.semantics import Semantics
from kraftcheck.spec.language.state import State
from kraftcheck.spec.tla.state_conversion import TlaStateConverter
from kraftcheck.traces.formats.tlc_log import state_text
from kraftcheck.traces.pipeline.rows import state_hash

if TYPE_CHECKING:
    from kraftcheck.explorer.graph import Graph


class RequestedGraph:
    """The requested state graph. The constructor refuses an unknown format, before the search."""

    def __init__(self, job: SearchJob, arguments: argparse.Namespace) -> None:
        graph_writer(arguments.graph)
        self._is_table = arguments.graph.suffix.lower() == PARQUET_ENDING
        if self._is_table and (job.options.symmetry or job.options.view):
            problem = "states under SYMMETRY or a VIEW are not those of traces; use a configuration without them"
            raise InputError(f"--graph {arguments.graph}: {problem}")
        self._job, self._arguments = job, arguments
        self._view = TlaStateConverter(job.protocol)
        self._graph: Graph | None = None

    def search(self) -> Result:
        """Run the search and keep its state graph, unless the search is interrupted."""

        def work(options: SearchRequest) -> Result:
            result, self._graph = search_with_graph(self._job.protocol, options, self._text)
            return result

        return run_job(self._job, quiet=self._arguments.quiet, work=work)

    def write(self, result: Result) -> None:
        """Print the size of the graph, then write it."""
        asked, graph = self._arguments, self._graph
        if asked.graph_around is not None:
            if not result.violations:
                asked.graph.unlink(missing_ok=True)  # a graph of an earlier run must not pass for this run's
                print_lines(note_lines(["--graph-around: no counterexample, so no graph was written"]))
                return
            trace, most = result.violations[0].trace, asked.graph_most or MOST_WRITTEN_STATES
            graph = graph_around_behaviour(Semantics(self._job.protocol), trace, asked.graph_around, most, self._text)
        if graph is not None:
            said = describe_graph_size_or_raise(graph, asked.graph, asked.graph_most)
            if not asked.quiet:
                print_lines(note_lines([f"{asked.graph}: {said}"]))
            graph_writer(asked.graph)(graph, asked.graph)

    def _text(self, state: State) -> str | bytes:
        return state_hash(state) if self._is_table else state_text(self._view.variables(state))
