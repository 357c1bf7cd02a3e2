# Every target sets up what it needs in .venv; nothing has to be installed by hand but Python >= 3.11, make and Java >= 17.
# Where there is a C compiler too, the modules that every record passes through are compiled (setup.py).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
BUILT  := $(VENV)/.built
HOT    := $(shell find wire net client broker -name '*.py')

.PHONY: setup pure demo test check lint types imports unit cluster bench bench-peer chaos format clean images compose-up compose-down docker-test foreign-test spark-test

demo: $(BUILT)            ## a real ZooKeeper, three real brokers and Spark on this machine: what they do, in under a minute
	$(BIN)/python -m ottla.local.demo

test: $(BUILT)            ## everything that must hold: lint, types, import rules, all tests
	$(BIN)/python -m tests.run_all

setup: $(BUILT)           ## the virtual environment, with everything the project needs

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	OTTLA_COMPILE=0 $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[local,spark,dev,compat]'
	command -v kcat >/dev/null || { test "$$(id -u)" = 0 && apt-get install --yes kcat >/dev/null 2>&1; } || echo "kcat is not installed: its tests are skipped"
	touch $(READY)

$(BUILT): $(READY) setup.py $(HOT)
	touch $(BUILT).begun
	$(BIN)/python setup.py --quiet build_ext --inplace
	mv $(BUILT).begun $(BUILT)

pure: $(READY)            ## no compiled modules: every edit counts at once (make setup brings them back)
	OTTLA_COMPILE=0 $(BIN)/python setup.py --quiet build_ext --inplace
	rm -f $(BUILT)

check: lint types imports ## what needs no processes

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports --no-logo

unit: $(READY)            ## the quick tests only
	$(BIN)/python -m pytest tests/unit tests/component

cluster: $(BUILT)         ## the tests on live processes only
	$(BIN)/python -m pytest tests/cluster

bench: $(BUILT)           ## measure, beside the bare limit of this machine; writes bench-results/*.json
	$(BIN)/python -m ottla.bench

bench-peer: $(BUILT)      ## our clients beside confluent-kafka, in the same run
	$(BIN)/python -m ottla.bench peer

images: $(READY)          ## the Docker images, on a base of Docker's registry or, where none is in reach, one made here
	docker/images.sh $(BIN)/python

compose-up: images        ## three ZooKeepers and three brokers in containers; PROFILES=racks: five brokers in two racks; PROFILES=spark: Spark, too
	COMPOSE_PROFILES=$(or $(PROFILES),$(COMPOSE_PROFILES)) docker/compose.sh up

compose-down:             ## stop them; VOLUMES=1 deletes their data too
	docker/compose.sh down $(if $(VOLUMES),--volumes)

chaos: $(BUILT)           ## ten minutes of faults under load, some in turn, most random (CHAOS_SECONDS=600, SEED=1); reports in chaos-results/
	chaos/scripts/suite.sh $(BIN)/python $(or $(CHAOS_SECONDS),600)

foreign-test: $(BUILT)    ## Kafka's Java client, sarama, krafka and rskafka against a live cluster; takes java, go or cargo, and minutes
	$(BIN)/python -m tests.foreign.drive
	$(BIN)/python -m tests.foreign.answers

spark-test: $(BUILT)      ## what takes minutes with Spark: millions of records, leaders and queries killed
	$(BIN)/python -m pytest -m deep tests/spark tests/cluster/test_docs_examples.py

docker-test: images       ## the tests on live containers
	$(BIN)/python -m pytest -m docker tests/docker

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	find . -name '*.so' -not -path './.venv/*' -delete
	rm -rf $(VENV) src/ottla/compiled.txt build dist *.egg-info src/*.egg-info bench-results chaos-results .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
