"""Configurations that models ship: tables of TOML, written out as `.cfg`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftcheck.catalogue import find_config_name_and_content, find_model, read_configurations, shipped_model_modules
from kraftcheck.spec.cfg.binding import bind
from kraftcheck.spec.cfg.config import read_config
from kraftcheck.spec.errors import InputError
from tests.support.kraft_model.searches import variant_for

TABLES = """
[_base]
check_deadlock = false
constants = "Hosts = {n1, n2}  Majorities = {{n1, n2}, {n2}}  Name = \\"a b\\""

[smoke]
about = "Two hosts. And more."
inherits = "_base"
init = "Elected"
invariants = "One Two Three"
constants = "MaxElections = 1"

[wider]
inherits = "smoke"
without = "init MaxElections"
invariants = "-Two +Four"
properties = "Grows"
constants = "Hosts = {n1, n2, n3}"
"""


@pytest.fixture
def tables(tmp_path):
    def read(text: str):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.toml"
        file.write_text(text)
        return read_configurations(file)

    return read


def test_a_table_inherits_edits_and_removes(tables, tmp_path) -> None:
    found = tables(TABLES)
    assert list(found) == ["smoke", "wider"]
    assert (found["smoke"].summary, found["smoke"].file) == ("Two hosts.", "smoke.cfg")
    assert found["smoke"].text.splitlines() == [
        "\\* Two hosts. And more.",
        "CONSTANTS",
        "    Hosts = {n1, n2}",
        "    Majorities = {{n1, n2}, {n2}}",
        '    Name = "a b"',
        "    MaxElections = 1",
        "INIT Elected",
        "INVARIANTS",
        "    One Two Three",
        "CHECK_DEADLOCK FALSE",
    ]
    (tmp_path / "wider.cfg").write_text(found["wider"].text)
    config = read_config(tmp_path / "wider.cfg")
    assert {name: str(one.value) for name, one in config.constants.items() if name == "Name"} == {"Name": "a b"}
    assert list(config.constants) == ["Hosts", "Majorities", "Name"]
    assert [value.name for value in config.model_values] == ["n1", "n2", "n3"]
    assert [one.name for one in config.invariants] == ["One", "Three", "Four"]
    assert ([one.name for one in config.properties], config.init, config.check_deadlock) == (["Grows"], None, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\ninherits = "b"\n', "a: inherits: unknown configuration b"),
        ('[a]\ninvariant = "One"\n', "a: unknown key invariant (perhaps invariants?)"),
        ('[a]\nconstants = "N = {1, 2"\n', "a: constants: expected NAME = VALUE, found N = {1, 2"),
    ],
)
def test_a_slip_in_a_table_is_an_error(tables, text, message) -> None:
    with pytest.raises(InputError) as caught:
        tables(text)
    assert message in str(caught.value)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", shipped_model_modules())
def test_every_shipped_configuration_binds(name: str) -> None:
    """A configuration of a variant may set constants that only the variant has."""
    model = find_model(name)
    for config in model.configurations:
        bind(find_model(name, variant_for(model, config)).protocol, find_config_name_and_content(model, config)[1])


def test_a_configuration_is_printed_as_tlc_reads_it(run, tmp_path) -> None:
    """The printed `.cfg` gives the counts of the name."""
    printed = run("models", "two-phase-commit", "--cfg", "smoke")
    assert (printed.code, printed.err) == (0, "")
    file = Path(tmp_path, "smoke.cfg")
    file.write_text(printed.out)
    for config in ("smoke", file):
        checked = run("check", "two-phase-commit", "--config", config, "--engine", "reference")
        assert "288 distinct states" in checked.out
    missing = run("models", "two-phase-commit", "--cfg", "smok")
    assert (missing.code, "unknown configuration smok (perhaps smoke?)" in missing.err) == (2, True)
    assert run("models", "--cfg", "smoke").code == 2
