#!/usr/bin/env bash
# Deploys a stage: looks at the account, then the data stack, the edge stack where the stage has one, the image of what
# runs in containers, the first operator key if there is none yet (it makes the deployment's row, which the stream service
# may only read), the service stack, and a smoke test. Called by `make deploy STAGE=...`, which builds the functions
# first. ALARM_EMAIL takes the place of the stage's address for alarms.
set -euo pipefail
cd "$(dirname "$0")/.."
stage=${1:?say which stage}
cdk=${CDK:-.cache/cdk/node_modules/.bin/cdk}
outputs=.cache/outputs-$stage
key=.cache/operator-$stage.key
facts=.cache/preflight-$stage.json
mkdir -p .cache
# field of the object in a file: a text, a list joined by commas, or true or false
field() { python3 -c '
import functools, json, sys
v = functools.reduce(lambda o, k: o[k], sys.argv[2:], json.load(open(sys.argv[1])))
print(",".join(v) if isinstance(v, list) else str(v).lower() if isinstance(v, bool) else v)' "$@"; }
output() { field "$outputs.$1.json" "agents-$stage-$1" "$2"; }

go run ./scripts/preflight -stage "$stage" -alarm-email "${ALARM_EMAIL:-}" -json >"$facts"
commit=$(field "$facts" commit)
before=$(field "$facts" before)
echo "deploying commit $commit to $stage${before:+, in the place of $before}"
context=(-c "stage=$stage" -c "commit=$commit" -c "originPrefixList=$(field "$facts" originPrefixList)"
  -c "zones=$(field "$facts" zones)")
[ -z "$before" ] || context+=(-c "commitBefore=$before")
[ -z "${ALARM_EMAIL:-}" ] || context+=(-c "alarmEmail=$ALARM_EMAIL")
deploy() { # the names of the file of outputs and of the stack
  "$cdk" deploy --exclusively --require-approval never "${context[@]}" --outputs-file "$outputs.$1.json" "$2"
}

deploy data Data
if [ "$(field "$facts" edge)" = true ]; then
  deploy edge Edge
  context+=(-c "webAcl=$(output edge WebAclArn)")
fi
image=$(go run ./scripts/imagepush -repository "$(output data ImageRepository)")
echo "image: $image"
context+=(-c "image=$image")

if [ ! -s "$key" ]; then
  umask 077
  go run ./scripts/firstkey -if-none -table "$(output data CoreTable)" >"$key.made"
  if [ -s "$key.made" ]; then
    field "$key.made" key >"$key.new"
    mv "$key.new" "$key"
    echo "the operator key is in $key: put it into a safe place"
  fi
  rm "$key.made"
fi

deploy service Service
if [ ! -s "$key" ] && [ -z "${OPERATOR_KEY:-}" ]; then
  echo "$stage is deployed, and not tested: its operator key is with whoever deployed it first; say OPERATOR_KEY=..., or"
  echo "bring it to $key, and then: make smoke STAGE=$stage"
  exit 1
fi
make smoke STAGE="$stage"
