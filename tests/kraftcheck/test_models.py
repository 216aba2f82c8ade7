"""What there is to check: models, variants, configurations, engines."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from kraftcheck.catalogue import (
    CONFIGURATIONS_FILE,
    MODEL_PACKAGES,
    REQUIRED_CONFIGURATIONS,
    find_config_name_and_content,
    find_model,
    model_modules_in_package,
    shipped_model_modules,
)
from kraftcheck.engines import ENGINES, Engine, choose_engine
from kraftcheck.kraft_model.reconfig.properties import ReconfigProperties
from kraftcheck.spec import InputError
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.discovery import first_docstring_sentence, load_protocol, variants_of


@pytest.mark.parametrize("name", shipped_model_modules())
def test_every_shipped_model_has_every_tier_with_something_to_check(name) -> None:
    model = find_model(name)
    for tier in REQUIRED_CONFIGURATIONS:
        found, config = find_config_name_and_content(model, tier)
        assert found == tier
        assert bind(model.protocol, config).properties


@pytest.mark.parametrize("tier", REQUIRED_CONFIGURATIONS)
def test_reconfig_checks_all_invariants_of_the_specification(tier) -> None:
    config = find_config_name_and_content(find_model("reconfig"), tier)[1]
    invariants = {p.name for p in ReconfigProperties.properties.values() if p.kind == "invariant"}
    assert len(invariants) == 5
    assert {named.name for named in config.invariants} == invariants
    assert config.check_deadlock is False


DETAILS = [
    *[("reconfig", f"{name}-details") for name in ("smoke", "default", "joining", "competing")],
    *[("prevote", f"{name}-details") for name in ("smoke", "default", "growing", "disturbed")],
]


@pytest.mark.parametrize(("model", "tier"), DETAILS)
def test_a_port_checks_all_it_has_in_details(model, tier) -> None:
    config = find_config_name_and_content(find_model(model), tier)[1]
    named = {one.name for one in (*config.invariants, *config.properties)}
    properties = find_model(model).protocol.properties
    assert named == {name for name, one in properties.items() if one.kind not in ("predicate", "temporal")}


def test_models_command(run, tmp_path) -> None:
    path = tmp_path / "models.json"
    outcome = run("models", "--json", path)
    assert outcome.code == 0
    content = {entry["model"]: entry for entry in json.loads(path.read_text())}
    assert list(content) == list(shipped_model_modules())
    reconfig = content["reconfig"]
    assert reconfig["summary"].startswith("KRaft with one-at-a-time reconfiguration")
    assert "restart-without-state-corrected" in reconfig["variants"]
    assert list(reconfig["configurations"])[:3] == list(REQUIRED_CONFIGURATIONS)
    assert len(outcome.out.splitlines()) == len(content) + 3
    for name, entry in content.items():
        (line,) = [line for line in outcome.out.splitlines() if line.startswith(f"{name} ")]
        assert line.split(maxsplit=3)[1:] == [
            str(len(entry["variants"])),
            str(len(entry["configurations"])),
            entry["summary"],
        ]
    for name in ("reconfig", "two-phase-commit"):
        told = run("models", name, "--json", path).out
        assert json.loads(path.read_text()) == [content[name]]
        for sentences in (content[name]["variants"], content[name]["configurations"]):
            for one, sentence in sentences.items():
                assert f"    {one}" in told
                assert " ".join(sentence.split()) in " ".join(told.split())
    assert run("models", "reconfigg").err.startswith(
        "kraftcheck: error: unknown model reconfigg (perhaps reconfig?); there is "
    )


def test_a_configuration_is_not_written_as_json(run, tmp_path) -> None:
    outcome = run("models", "die-hard", "--cfg", "default", "--json", tmp_path / "list.json")
    assert (outcome.code, outcome.out) == (2, "")
    assert "holds the list, not a configuration; leave out --cfg or --json" in outcome.err


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A package of models beside the shipped ones; calling it adds a model of this source."""
    folder = tmp_path / "house_of_models"

    def add(name: str, source: str, variants: str | None = None) -> None:
        package = folder / name
        package.mkdir()
        (package / CONFIGURATIONS_FILE).write_text('[default]\nabout = "All of it."\ninit = "Init"\nnext = "Next"\n')
        (package / "__init__.py").write_text(source)
        if variants is not None:
            (package / "variants.py").write_text(variants)

    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("kraftcheck.catalogue.MODEL_PACKAGES", (*MODEL_PACKAGES, folder.name))
    model_modules_in_package.cache_clear()
    yield add
    model_modules_in_package.cache_clear()
    for module in [module for module in sys.modules if module.partition(".")[0] == folder.name]:
        del sys.modules[module]


COUNTER = """
from kraftcheck import *

class Node(Record):
    id: int
    count: int = 0

class Nothing(Record):
    pass

class Counter(Protocol):
    \"\"\"A node counts to three.\"\"\"

    def initial(self):
        yield self.start([Node(1)], Nothing())

    @internal
    def count_on(self, me: Node) -> Steps:
        if me.count < 3:
            yield become(me.but(count=me.count + 1))
"""


def test_a_model_is_found_because_its_folder_is_there(home, run) -> None:
    home("to_three", COUNTER, "from . import Counter\nclass Two(Counter, variant='two'):\n    'To two.'\n")
    assert [*shipped_model_modules()][-1] == "to-three"
    assert "house_of_models.to_three" not in sys.modules
    model = find_model("to-three")
    assert "house_of_models.to_three.variants" not in sys.modules
    assert (model.protocol.__name__, model.shipped, list(model.variants)) == ("Counter", "to-three", ["two"])
    assert list(model.configurations) == ["default"]
    assert re.search(r"^to-three +1 +1  A node counts to three.$", run("models").out, re.MULTILINE)
    listed = run("models", "to-three").out
    assert "to-three  A node counts to three.\n  variants\n    two  To two.\n" in listed
    found = run("check", "to-three", "--engine", "reference", "--variant", "two", "--no-deadlock")
    assert found.code == 0, found
    assert "4 distinct states" in found.out


def test_a_folder_without_configurations_is_no_model(home, tmp_path) -> None:
    home("to_three", COUNTER)
    (tmp_path / "house_of_models" / "to_three" / CONFIGURATIONS_FILE).unlink()
    assert "to-three" not in shipped_model_modules()


@pytest.mark.parametrize(
    ("source", "found"),
    [(COUNTER + "class Other(Protocol):\n    pass\n", "Counter, Other"), ("from kraftcheck import *\n", "none")],
)
def test_a_model_is_one_protocol(home, run, source, found) -> None:
    home("mistaken", source)
    outcome = run("check", "mistaken")
    assert outcome.code == 2
    assert f"house_of_models.mistaken: expected one protocol that is no variant, found {found}" in outcome.err


def test_help_finds_no_models() -> None:
    code = "import sys; from kraftcheck.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    code += "print([name for name in sys.modules if 'catalogue' in name or 'model' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_variants_are_imported_when_asked_for() -> None:
    code = (
        "import sys; from kraftcheck.kraft_model.reconfig import Reconfig\n"
        "from kraftcheck.spec.discovery import variants_of\n"
        "print('kraftcheck.kraft_model.reconfig.variants' in sys.modules, bool(variants_of(Reconfig)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False True\n"


def test_variant_of_a_users_own(ping) -> None:
    model = find_model(ping, "forgetful")
    assert model.protocol.__name__ == "Forgetful"
    assert model.protocol.name() == "PingPong"
    assert first_docstring_sentence(model.protocol) == "A peer forgets its log."
    assert list(variants_of(find_model(ping).protocol)) == ["forgetful"]


def test_a_users_file_finds_modules_beside_it_and_replaces_none(tmp_path) -> None:
    (tmp_path / "beside_mine.py").write_text("LIMIT = 3\n")
    (tmp_path / "json.py").write_text(
        "from beside_mine import LIMIT\nfrom kraftcheck import *\n"
        "class Mine(Protocol):\n    limit: int = constant('Limit', default=LIMIT)\n"
    )
    path_before = list(sys.path)
    try:
        assert load_protocol(tmp_path / "json.py", "Mine")().constant_values() == {"Limit": 3}
    finally:
        sys.modules.pop("beside_mine", None)
    assert sys.modules["json"] is json
    assert sys.path == path_before


def test_a_users_model_needs_no_configuration(ping) -> None:
    name, config = find_config_name_and_content(find_model(ping), None)
    assert name == "none"
    assert [named.name for named in config.invariants] == ["ShortLog", "FewPings"]
    assert [named.name for named in config.properties] == ["LogGrows"]


def test_engines(monkeypatch) -> None:
    quick = Engine("nowhere:run", ("bfs", "iddfs"), ("--workers",))
    monkeypatch.setattr("kraftcheck.engines.ENGINES", {"reference": ENGINES["reference"], "quick": quick})
    assert choose_engine(None, "bfs") == "reference"
    assert choose_engine(None, "bfs", ["--workers"]) == "quick"
    assert choose_engine(None, "iddfs") == "quick"
    assert choose_engine("quick", "bfs") == "quick"
    for arguments, message in (
        (("quick", "dfs"), "--search dfs: not supported by the engine quick; use --engine reference"),
        (("reference", "bfs", ["--workers"]), "--workers: not supported by the engine reference; "),
        ((None, "bfs", ["--memory"]), "--memory: no engine supports it; engines are reference, quick"),
        ((None, "bfs", ["--workers", "--graph"]), "--search bfs, --workers, --graph: no engine supports all of them"),
    ):
        with pytest.raises(InputError, match=None) as caught:
            choose_engine(*arguments)
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_there(name) -> None:
    assert callable(ENGINES[name].run)
