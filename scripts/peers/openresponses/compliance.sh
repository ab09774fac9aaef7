#!/usr/bin/env bash
# Has the compliance tests of Open Responses judge the service. They are on no registry. OPENRESPONSES names a copy of
# them, with bun and zod in its node_modules; without one, one commit is cloned where github.com can be reached.
set -euo pipefail
cd "$(dirname "$0")/../../.."
commit=92c12d96d7b61d6d15e2214daa5e9c6000ab6e1c
from=https://github.com/openresponses/openresponses
copy=$PWD/.cache/openresponses

clone() {
  [ "$(git -C "$copy" rev-parse -q --verify HEAD 2>/dev/null)" != "$commit" ] || return 0
  curl -sfo /dev/null --max-time 10 "$from" || return 1
  rm -rf "$copy" && git init -q "$copy" && git -C "$copy" fetch -q --depth 1 "$from" "$commit" &&
    git -C "$copy" checkout -q "$commit"
}

if [ -z "${OPENRESPONSES:-}" ]; then
  if ! clone; then
    echo "compliance tests of Open Responses: SKIPPED, no copy of openresponses/openresponses (set OPENRESPONSES)"
    exit 0
  fi
  if [ ! -e "$copy/node_modules/made" ]; then
    cp scripts/peers/openresponses/*.json "$copy/" # in place of its own, which has much more
    npm ci --silent --no-fund --no-audit --prefix "$copy"
    touch "$copy/node_modules/made"
  fi
  export OPENRESPONSES=$copy
fi
"${GO:-go}" test -vet=off -tags peers,pebblegozstd -run TestComplianceOfOpenResponses -count 1 -timeout 5m -v ./functions/agentplatform
