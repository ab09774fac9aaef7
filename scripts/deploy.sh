#!/usr/bin/env bash
# Deploys a stage: the data stack, the image of the stream service, the service and ops stacks, the first operator key if
# there is none yet, and a smoke test. Called by `make deploy STAGE=...`, which builds the functions first.
set -euo pipefail
cd "$(dirname "$0")/.."
stage=${1:?say which stage}
cdk=.cache/cdk/node_modules/.bin/cdk
output() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["agents-"+sys.argv[2]+"-"+sys.argv[3]][sys.argv[4]])' "$1" "$stage" "$2" "$3"; }
outputs=.cache/outputs-$stage.json
key=.cache/operator-$stage.key

"$cdk" deploy --require-approval never -c "stage=$stage" --outputs-file "$outputs.data" Data
image=$(go run ./scripts/imagepush -repository "$(output "$outputs.data" data ImageRepository)")
echo "stream image: $image"
"$cdk" deploy --require-approval never -c "stage=$stage" -c "image=$image" --outputs-file "$outputs" Service Ops

if [ ! -s "$key" ]; then
  umask 077
  # fails when the stage has been deployed from another machine: then bring its key here, the smoke test needs one
  go run ./scripts/firstkey -table "$(output "$outputs.data" data CoreTable)" >"$key.made"
  python3 -c 'import json,sys; print(json.load(sys.stdin)["key"])' <"$key.made" >"$key.new"
  rm "$key.made"
  mv "$key.new" "$key"
  echo "the operator key is in $key: put it into a safe place"
fi
make smoke STAGE="$stage"
