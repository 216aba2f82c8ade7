from kraftcheck.api import check as check
from kraftcheck.api import explain as explain
from kraftcheck.api import simulate as simulate
from kraftcheck.explorer.result import Interrupted as Interrupted
from kraftcheck.explorer.result import Progress as Progress
from kraftcheck.explorer.result import Result as Result
from kraftcheck.explorer.result import Search as Search
from kraftcheck.explorer.result import TraceStep as TraceStep
from kraftcheck.explorer.result import Verdict as Verdict
from kraftcheck.explorer.result import Violation as Violation
from kraftcheck.loading import Loaded as Loaded
from kraftcheck.loading import load as load
from kraftcheck.spec import *  # noqa: F403 - all of it
from kraftcheck.traces.replay.replayer import Replay as Replay
from kraftcheck.traces.replay.replayer import Replayer as Replayer
