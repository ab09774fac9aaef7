#!/usr/bin/env bash
# Deploys a stage: looks at the account, then the data stack, the edge stack where the stage has one, the image of what
# runs in containers, the first operator key if there is none yet (it makes the deployment's row, which the stream service
# may only read), the service stack, and a smoke test. Called by `make deploy STAGE=...`, which builds the functions
# first. ALARM_EMAIL takes the place of the stage's address for alarms.
#
# The operator key is kept in a file of its own for each life of a stage: its name has the account, the Region and the
# core table, which another life does not have. .cache/operator-STAGE.path names the file of the last deploy.
set -euo pipefail
cd "$(dirname "$0")/.."
stage=${1:?say which stage}
cdk=${CDK:-.cache/cdk/node_modules/.bin/cdk}
outputs=.cache/outputs-$stage
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
repository=$(output data ImageRepository)
image=$(go run ./scripts/imagepush -repository "$repository")
echo "image: $image"
context+=(-c "image=$image")

table=$(output data CoreTable) || { echo "the data stack has no output CoreTable" >&2; exit 1; }
account=${repository%%.*} # ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME
key=.cache/operator-$account-$(cut -d. -f4 <<<"$repository")-$table.key
# keep puts a key that was printed into its file, whole, and keeps the one before. What cannot be read stays: a key is
# printed once.
keep() {
  if [ -s "$key.made" ]; then
    if ! field "$key.made" key >"$key.new" 2>/dev/null; then
      rm -f "$key.new"
      mv "$key.made" "$key.broken"
      return
    fi
    { [ ! -s "$key" ] || mv "$key" "$key.before"; } && mv "$key.new" "$key" || return 1
    echo "the operator key is in $key: put it into a safe place"
  fi
  rm -f "$key.made"
}
first() { # prints nothing where there is a key; the first keep is for a deploy that was cut off
  umask 077
  keep && go run ./scripts/firstkey -if-none -table "$table" >"$key.made" && keep
}
(first) || { echo "there may be no operator key of $table yet, so the service is not deployed: deploy again" >&2; exit 1; }

deploy service Service
echo "$key" >".cache/operator-$stage.path"
if [ ! -s "$key" ] && [ -z "${OPERATOR_KEY:-}" ]; then
  echo "$stage is deployed, and not tested: its operator key is with whoever deployed it first. Bring it to the file"
  echo "$key, or set OPERATOR_KEY; then: make smoke STAGE=$stage"
  echo "Where nobody has it, make another and deploy again:"
  echo "(umask 077; go run ./scripts/firstkey -again -table $table >$key.made)"
  exit 1
fi
make smoke STAGE="$stage"
