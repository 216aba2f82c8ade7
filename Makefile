bin = .venv/bin/

.PHONY: setup lint test slow docs wheel

setup:
	python3 -m venv .venv && $(bin)pip install -e '.[dev]'
lint:
	$(bin)ruff check . && $(bin)mypy
test:
	$(bin)pytest
slow:
	$(bin)pytest -m slow
docs:
	$(bin)python docs/build_site.py
wheel:
	$(bin)python -m hatchling build
