# `make run` starts wishmeter; everything that it needs is installed and built on the way.
# What is up to date is left alone: a second `make run` is `wishmeter start` at once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules

BIN := node_modules/.bin
# Folders, too: one changes when a file in it comes or goes. (src/. and not src, since `test` is a target.)
SOURCES := $(shell find src/. test/. bench/. -type d -o -name '*.ts' -o -name '*.js' 2>/dev/null)
PACKAGES := node_modules/.package-lock.json
BUILD := dist/.built
TAP := dist/.tap
CLI := $(BIN)/wishmeter
# NODE=22: everything runs on that version of Node, which npm has as a package for each system.
ifdef NODE
NODE_PACKAGE := node-$(shell uname -s | tr A-Z a-z)-$(subst aarch64,arm64,$(subst x86_64,x64,$(shell uname -m)))
NODE_DIR := $(CURDIR)/dist/node-$(NODE)
NODE_PROGRAM := $(NODE_DIR)/node_modules/$(NODE_PACKAGE)/bin/node
export PATH := $(dir $(NODE_PROGRAM)):$(PATH)
endif
TESTS ?= dist/test/**/*.test.js
FAST_TESTS := dist/test/{config,docs,errors,package,tick}.test.js dist/test/{events,visits}/*.test.js \
	dist/test/redis/store.test.js dist/test/profiles/rules.test.js \
	dist/test/flush/stream.test.js \
	dist/test/http/{callers,caps,ids,items,routes,validation,visits}.test.js

.PHONY: help run test test-fast test-full test-redis test-debian13 test-replicas watch check demo sql bench bench-compare bench-masters soak build package release clean \
	check-style check-imports check-core check-exports check-openapi check-node redis chromium nginx deploy-programs zookeeper wrk webdis nginx-lua

help:
	@echo 'Try it'
	@echo '  make run            everything on this machine: HTTP, Redis, ClickHouse, the dashboard'
	@echo '  make demo           a shop'\''s afternoon in a minute, with every answer checked; on a terminal, or with KEEP=1,'
	@echo '                      the shop then stays open, with weeks of made-up history'
	@echo '  make sql Q="SELECT count() FROM events"'
	@echo '                      asks the demo while it is open, else what `make run` runs'
	@echo 'Change it'
	@echo '  make watch          compiles whatever you save; in another terminal, make test-fast'
	@echo '  make test-fast      what needs no server, or only Redis: under a minute'
	@echo '  make test           all tests; TESTS=dist/test/http/*.test.js for some, NODE=22 on that Node, from npm'
	@echo '  make check          types, lint, format, import rules, unused code, what others make of the OpenAPI document'
	@echo '  make test-full      all tests in their long form, with more kills and more random cases; hours'
	@echo '  make test-redis SERVER=/usr/bin/valkey-server'
	@echo '                      what concerns Redis, on another server program'
	@echo '  make test-debian13  all tests on Debian 13 with Node 24, as root; TESTS= for some, SERVER= as test-redis'
	@echo '  make test-replicas  the schema of a ClickHouse cluster, on two replicas with ZooKeeper'
	@echo '  make soak           traffic and random faults; MINUTES=10 SEED=1 CLUSTER=1'
	@echo 'Measure it'
	@echo '  make bench          speed and size next to other software, 15 minutes; QUICK=1 for three; see bench/README.md'
	@echo '  make bench-compare BASE=<commit>'
	@echo '  make bench-masters  what a visit costs with many masters, in a minute'
	@echo 'Ship it'
	@echo '  make package        what runs in production, as dist/wishmeter-<version>.tgz for npm'
	@echo '                      OLD_GLIBC=1: for systems before Debian 13 and Ubuntu 24.04, in dist/old-glibc'
	@echo '  make release        checks, tests on Node 20, 22 and 24 and in full size, audit, package, SBOM, tag; see CONTRIBUTING.md'
	@echo '  make build, make clean'

run: build redis
	@exec node $(CLI) start

test: build redis chromium nginx deploy-programs $(TAP)
	@set -f; $(BIN)/tap $(TAP_FLAGS) $(TESTS) || { \
		echo 'One file alone: make test TESTS=dist/test/<folder>/<name>.test.js'; exit 1; } # tap knows **, sh does not

# Scripts and rules on their own, and the API with a Redis.
test-fast: build redis $(TAP)
	@set -f; $(BIN)/tap $(TAP_FLAGS) $(FAST_TESTS)

watch: build
	@exec $(BIN)/tsc --watch --preserveWatchOutput

# Every test in its long form: hours.
test-full: build redis chromium nginx deploy-programs $(TAP)
	@set -f; FAULTS=full $(BIN)/tap --timeout=14400 $(TAP_FLAGS) $(TESTS)

test-redis: build
	@.ci/test-redis "$(SERVER)"

# This Node builds, as it does everything else here; the other one only runs the tests.
test-debian13: build
	@.ci/debian13 "$(TESTS)" "$(SERVER)"

test-replicas: build zookeeper
	@$(BIN)/tap $(TAP_FLAGS) dist/test/replicas/main.js

check: build redis
	@$(MAKE) -j2 check-style check-imports check-core check-exports check-openapi

check-style:
	@$(BIN)/biome check --config-path=.ci $(BIOME_FLAGS) src test bench

check-imports:
	@$(BIN)/depcruise --config .ci/dependency-cruiser.cjs --output-type err src test bench

# Without the extras, and without the commands, which open them.
check-core:
	@$(BIN)/tsc -p .ci/tsconfig.core.json

# src/main.ts imports commands by name; .ci/minify.mjs imports src/extras/storefront/scripts.ts.
check-exports:
	@$(BIN)/ts-unused-exports tsconfig.json --allowUnusedTypes --silent --showLineNumber --excludePathsFromReport='src/commands/;src/extras/storefront/scripts'

check-openapi:
	@.ci/timed 'Reading the OpenAPI document as others do' node dist/test/http/generators.test.js

demo: build redis
	@exec node dist/bench/demo.js

# Of a demo that is open, else of `make run`; DATA_DIR and CLICKHOUSE_URL go before both.
sql: build
	@set -- $$(cat dist/.demo 2>/dev/null); kill -0 "$$1" 2>/dev/null && export DATA_DIR="$${DATA_DIR:-$$2}"; \
		exec node $(CLI) sql $(if $(FORMAT),--format $(FORMAT)) "$$Q"

bench: build redis wrk webdis nginx-lua
	@exec node dist/bench/main.js

bench-compare: build redis wrk
	@exec node dist/bench/compare.js "$(BASE)"

bench-masters: build redis
	@exec node dist/bench/masters.js

soak: build redis
	@MINUTES="$(MINUTES)" SEED="$(SEED)" CLUSTER="$(CLUSTER)" exec node dist/test/faults/soak.js

package: build
	@node .ci/package.mjs $(if $(OLD_GLIBC),dist/old-glibc --old-glibc,dist)

release:
	@.ci/release

build: $(BUILD) $(CLI)

clean:
	@rm -rf dist .tap

# Everything that installs or builds, below.

# --ignore-scripts: nothing that we use needs one. npm writes the target itself, last.
$(PACKAGES): package-lock.json | check-node
	@.ci/timed 'Installing npm packages' npm ci --ignore-scripts --no-progress --loglevel=error
	@touch $@

check-node: $(NODE_PROGRAM)
	@.ci/check-node

ifdef NODE
.PHONY: node-program
node-program: $(NODE_PROGRAM)

$(NODE_PROGRAM):
	@.ci/timed 'Installing Node $(NODE)' npm install --prefix $(NODE_DIR) --no-save --ignore-scripts $(NODE_PACKAGE)@$(NODE)
endif

# tsc keeps what it knows in dist/, and only writes what has changed. What has lost its source would go on being tested.
$(BUILD): $(PACKAGES) tsconfig.json $(SOURCES)
	@.ci/timed 'Compiling' $(BIN)/tsc
	@find dist/src dist/test dist/bench -name '*.js' 2>/dev/null | while read -r js; do \
		ts=$${js#dist/}; [ -e "$${ts%.js}.ts" ] || rm -f "$$js" "$$js.map"; done
	@node .ci/minify.mjs
	@chmod +x dist/src/main.js
	@touch $@

# Else it would do so in its first run, and that with the plugins that it comes with.
$(TAP): $(PACKAGES) package.json | $(BUILD)
	@.ci/timed 'Building tap with its plugins' $(BIN)/tap build
	@touch $@

# npx wishmeter, in this folder.
$(CLI): $(PACKAGES)
	@ln -sf ../../dist/src/main.js $@

redis:
	@.ci/install-redis

chromium:
	@.ci/install-chromium

nginx:
	@.ci/install-nginx

zookeeper:
	@.ci/install-zookeeper

deploy-programs:
	@.ci/install-deploy-programs

wrk:
	@command -v $@ >/dev/null || .ci/apt-get-install $@

# Without one of these `make bench` leaves its cases out, and says so.
webdis:
	@command -v $@ >/dev/null || .ci/apt-get-install $@ || :

nginx-lua:
	@[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] || .ci/apt-get-install libnginx-mod-http-lua || :
