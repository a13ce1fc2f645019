# redis-rl. `make run` and `make test` need only Rust, Python 3.11, git and make on a Debian 12:
# each installs whatever else is missing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export PATH := $(HOME)/.cargo/bin:$(PATH)
export DEBIAN_FRONTEND := noninteractive
export PYTHONDONTWRITEBYTECODE := 1

MODULE := target/release/libredis_rl.so
PYTHON := .venv/bin/python
SUDO   := $(if $(filter 0,$(shell id -u)),,sudo -E)

# The server that `make run` started, and nothing else, lives in here.
RUN := .run

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: build ## Build, start a Redis with the module, show a first decision
	@$(call packages,redis-server redis-cli)
	$(stop_ours)
	mkdir -p $(RUN)
	port=$$(cat $(RUN)/port 2>/dev/null || echo 6379)
	while (exec 3<>/dev/tcp/127.0.0.1/$$port) 2>/dev/null; do port=$$((port + 1)); done
	echo "$$port" > $(RUN)/port
	sed 's|^loadmodule .*|loadmodule "$(CURDIR)/$(MODULE)"|' redis.conf.example > $(RUN)/redis.conf
	(cd $(RUN) && redis-server redis.conf --port "$$port" --daemonize yes \
		--pidfile "$(CURDIR)/$(RUN)/redis.pid" --logfile "$(CURDIR)/$(RUN)/redis.log") >/dev/null
	for _ in $$(seq 100); do
		[ "$$(redis-cli -p "$$port" PING 2>/dev/null || true)" = PONG ] && break
		sleep 0.1
	done
	[ "$$(redis-cli -p "$$port" PING 2>/dev/null || true)" = PONG ] || {
		echo "The server did not start; the end of $(RUN)/redis.log:" >&2
		tail -n 20 $(RUN)/redis.log >&2
		exit 1
	}
	version=$$(redis-cli -p "$$port" INFO server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')
	decision=$$(redis-cli -p "$$port" RL.SLIDING user:42 60 100)
	echo
	echo "Redis $$version with redis-rl is running on port $$port."
	echo
	echo "May user:42 make one more request, of 100 in any 60 seconds?"
	echo
	echo "  > RL.SLIDING user:42 60 100"
	i=0
	labels=(
		"allowed    1: go ahead, 0: denied"
		"limit      requests in the window"
		"remaining  how many more would be accepted now"
		"wait_ms    if denied: try again after this many ms"
		"reset_ms   after this many ms all is as new"
	)
	while read -r number; do
		[ "$$i" -lt 5 ] || break
		printf '  %d) (integer) %-6s  %s\n' $$((i + 1)) "$$number" "$${labels[$$i]}"
		i=$$((i + 1))
	done <<< "$$decision"
	[ "$$i" -eq 5 ] || { echo "unexpected reply: $$decision" >&2; exit 1; }
	echo
	echo "Go on:  redis-cli -p $$port"
	echo "Stop:   make stop"

.PHONY: stop
stop: ## Stop the Redis that `make run` started
	@$(stop_ours)

.PHONY: test
test: build .venv/ready ## Run the Rust tests, then the suite on all four servers
	@$(call packages,redis-server redis-cli faketime valgrind)
	mkdir -p target
	failed=0
	cargo test --locked 2>&1 | tee target/cargo-test.log || failed=1
	chmod +x target/debug/examples/libmeddler.so  # cargo test has built it
	CARGO_TARGET_DIR=target/examples/rust cargo test --locked --manifest-path examples/rust/Cargo.toml 2>&1 \
		| tee -a target/cargo-test.log || failed=1
	$(PYTHON) -m pytest -c tests/pytest.ini tests $(PYTEST_ARGS) 2>&1 | tee target/pytest.log || failed=1
	echo
	echo "cargo test:"
	grep '^test result:' target/cargo-test.log || { echo "no test ran"; failed=1; }
	echo "pytest:"
	grep -E '^((redis|valkey)-[0-9.]+|python|node|rust) +[0-9]+ passed' target/pytest.log || failed=1
	tail -n 1 target/pytest.log
	exit $$failed

.PHONY: dist
dist: build ## Pack a release into target/dist, and try it
	@$(call packages,strip redis-server redis-cli)
	tools/dist.sh $(MODULE) target/dist

.PHONY: bench
bench: build .venv/pictures-ready ## Measure beside SET, GET and Lua scripts, 20 minutes; BENCH_ARGS=--quick
	@$(call packages,redis-server redis-cli)
	$(PYTHON) -m bench $(BENCH_ARGS)

.PHONY: docs
docs: build .venv/pictures-ready ## Draw the pictures and measure the tables of docs/ anew
	@$(call packages,redis-server)
	for script in draw accuracy retries; do $(PYTHON) docs/pictures/$$script.py; done

.PHONY: build
build: ## Build the module, target/release/libredis_rl.so
	@$(call packages,cc libclang)
	command -v cargo >/dev/null || { echo "Rust is not installed: no cargo" >&2; exit 1; }
	cargo build --release --locked
	chmod +x $(MODULE)  # a server refuses to load a file without it

.PHONY: test-reliability
test-reliability: build .venv/ready ## Run the reliability tests in their long form: an hour or more
	@$(call packages,redis-server redis-cli faketime valgrind)
	RL_LONG=1 $(PYTHON) -m pytest -c tests/pytest.ini tests/reliability $(PYTEST_ARGS)

FUZZ_SECONDS ?= 60

.PHONY: fuzz
fuzz: ## Fuzz what is pure, FUZZ_SECONDS for each target; finds go into fuzz/artifacts
	@$(call packages,cc libclang c++)
	cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	# What coverage needs is in the stable compiler, behind this word.
	export RUSTC_BOOTSTRAP=1
	for target in grammar blobs limiters; do
		cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=512
	done

.PHONY: lint
lint: .venv/ready ## Check formatting and lints of Rust and Python
	@$(call packages,cc libclang)
	failed=0
	check() { echo "$$*"; "$$@" || failed=1; }
	cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	check cargo fmt --check
	check cargo clippy --all-targets --locked -- -D warnings
	for place in tests bench docs/pictures examples/python; do
		check .venv/bin/ruff check --no-cache $$place
		check .venv/bin/ruff format --no-cache --check $$place
	done
	export CARGO_TARGET_DIR=target/examples/rust
	check cargo fmt --manifest-path examples/rust/Cargo.toml --check
	check cargo clippy --manifest-path examples/rust/Cargo.toml --all-targets --locked -- -D warnings
	exit $$failed

.PHONY: clean
clean: ## Stop the server and remove all that was built or installed here
	@$(stop_ours)
	rm -rf target .venv $(RUN) examples/node/node_modules examples/rust/target examples/python/.venv bench/results/quick.*
	find . -name __pycache__ -not -path "./.git/*" -prune -exec rm -rf {} +

.venv/pictures-ready: bench/requirements.txt .venv/ready
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

.venv/ready: tests/requirements.txt
	@$(call packages,venv)
	python3 -m venv --clear .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	touch $@

# Installs the Debian packages behind the named needs, if they are not met: $(call packages,cc venv)
define packages
missing=()
for need in $(1); do
	case $$need in
	cc) command -v cc >/dev/null || missing+=(gcc libc6-dev) ;;
	c++) command -v c++ >/dev/null || missing+=(g++) ;;
	libclang) [ -n "$${LIBCLANG_PATH:-}" ] || ls /usr/lib/llvm-*/lib/libclang.so >/dev/null 2>&1 \
		|| missing+=(libclang-dev) ;;
	venv) python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv) ;;
	redis-server) [ -x /usr/bin/redis-server ] || missing+=(redis-server) ;;
	faketime) ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing+=(faketime) ;;
	strip) command -v strip >/dev/null || missing+=(binutils) ;;
	valgrind) command -v valgrind >/dev/null || missing+=(valgrind) ;;
	redis-cli) [ -x /usr/bin/redis-cli ] || missing+=(redis-tools) ;;
	esac
done
if [ "$${#missing[@]}" -gt 0 ]; then
	command -v apt-get >/dev/null || { echo "Please install: $${missing[*]}" >&2; exit 1; }
	echo "Installing $${missing[*]}"
	$(SUDO) apt-get update -qq
	$(SUDO) apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$${missing[@]}" >/dev/null
fi
endef

# Ends the server that `make run` started: the process of our pidfile, if it really lives in $(RUN).
define stop_ours
pid=$$(cat $(RUN)/redis.pid 2>/dev/null || true)
if [ -n "$$pid" ] && [ "$$(readlink "/proc/$$pid/cwd" || true)" = "$$(realpath $(RUN))" ]; then
	kill "$$pid"
	for _ in $$(seq 100); do kill -0 "$$pid" 2>/dev/null || break; sleep 0.1; done
	if kill -0 "$$pid" 2>/dev/null; then echo "The server $$pid does not stop" >&2; exit 1; fi
	echo "Stopped the server that make run had started."
fi
endef
