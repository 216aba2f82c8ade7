from kraftcheck.api import CheckOptions as CheckOptions
from kraftcheck.api import Loaded as Loaded
from kraftcheck.api import SearchOptions as SearchOptions
from kraftcheck.api import check as check
from kraftcheck.api import explain as explain
from kraftcheck.api import load as load
from kraftcheck.api import simulate as simulate
from kraftcheck.api import to_networkx as to_networkx
from kraftcheck.api import write_report as write_report
from kraftcheck.explorer.request import Progress as Progress
from kraftcheck.explorer.request import Search as Search
from kraftcheck.explorer.result import Interrupted as Interrupted
from kraftcheck.explorer.result import Result as Result
from kraftcheck.explorer.result import TraceStep as TraceStep
from kraftcheck.explorer.result import Verdict as Verdict
from kraftcheck.explorer.result import Violation as Violation
from kraftcheck.explorer.result import to_pandas as to_pandas
from kraftcheck.spec import *  # noqa: F403 - all of it
from kraftcheck.traces.replay.replayer import Replay as Replay
from kraftcheck.traces.replay.replayer import Replayer as Replayer
from kraftcheck.validation.stepping import Refused as Refused
from kraftcheck.validation.stepping import ValidationState as ValidationState
from kraftcheck.validation.stepping import validate_step as validate_step

def _missing_link_message(error: ImportError) -> str | None: ...
