#!/usr/bin/env bash
# LocalStack without Docker: `localstack.sh setup|start|stop|status|env`. Idempotent; everything lives in $LS_HOME.
# Needs: python3 >= 3.11 with venv, java >= 17 (a JRE does), mvn (only for setup). No Docker, no account, no token.
#   Debian: apt-get install -y python3-venv openjdk-17-jre-headless maven
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)/localstack
LS_VERSION=4.13.1
LS_HOME=${LS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/app-localstack}     # cache this directory in CI
LS_PORT=${LS_PORT:-4566}
DDB_PORT=$((LS_PORT + 1)) # of the DynamoDB Local that LocalStack starts
key=$(cat "$here"/{constraints.txt,pom.xml,jsonata-pom.xml,patch_localstack.py,place_jars.py,../localstack.sh,lshost/*.py,lshost/*.toml} | sha256sum | cut -c1-16)
root=$LS_HOME/$key

setup() {
  [ -e "$root/.done" ] && return
  rm -rf "$root" # of a setup that was cut off
  mkdir -p "$root"
  lib=$root/fs/var/lib/localstack/lib
  java_home=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
  # jars and wheels come at the same time
  ( mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$lib/dynamodb-local/2/DynamoDBLocal_lib" -DincludeScope=runtime
    mvn -q -B -f "$here/jsonata-pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$lib/jsonata/0.9.7" -DincludeScope=runtime ) & mvn_pid=$!
  python3 -m venv "$root/venv"
  cp -r "$here/lshost" "$root/lshost"
  "$root/venv/bin/pip" install -q --no-compile --disable-pip-version-check -c "$here/constraints.txt" \
    "localstack-core[runtime]==$LS_VERSION" "$root/lshost"
  "$root/venv/bin/python" "$here/patch_localstack.py"
  wait "$mvn_pid"
  "$root/venv/bin/python" "$here/place_jars.py" "$lib" "$java_home"
  touch "$root/.done"
}

start() {
  setup
  status >/dev/null && return
  mkdir -p "$root/fs/tmp" "$root/xdg"
  # OVERRIDE_IN_DOCKER=0: otherwise a CI machine with /.dockerenv would be taken for the LocalStack image, and
  # FILESYSTEM_ROOT ignored
  # DNS_ADDRESS=0: no DNS server on :53.  TZ=UTC: Step Functions waits compare with the local clock.
  # LS_LOG, and no cloudwatch: otherwise it writes a line for each request, and puts a metric for each message.
  # DYNAMODB_SHARE_DB=1: whoever asks DynamoDB Local itself sees the same tables, whatever credentials it signs with.
  # XDG_CACHE_HOME: plux caches entry points there; a cache of our own cannot be stale.
  env -u AWS_ENDPOINT_URL -u AWS_PROFILE \
    FILESYSTEM_ROOT="$root/fs" TMPDIR="$root/fs/tmp" XDG_CACHE_HOME="$root/xdg" TZ=UTC OVERRIDE_IN_DOCKER=0 \
    GATEWAY_LISTEN="127.0.0.1:$LS_PORT" LOCALSTACK_HOST="127.0.0.1:$LS_PORT" DNS_ADDRESS=0 \
    SKIP_SSL_CERT_DOWNLOAD=1 DISABLE_EVENTS=1 SQS_ENDPOINT_STRATEGY=path \
    PROVIDER_OVERRIDE_DYNAMODB=v2 PROVIDER_OVERRIDE_DYNAMODBSTREAMS=v2 DYNAMODB_IN_MEMORY=1 \
    DYNAMODB_LOCAL_PORT="$DDB_PORT" DYNAMODB_SHARE_DB=1 \
    LAMBDA_RUNTIME_EXECUTOR=host LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC=0.01 LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC=0.1 \
    LS_LOG=warning \
    SERVICES=dynamodb,dynamodbstreams,sqs,s3,stepfunctions,lambda,apigateway,events,ssm,secretsmanager,kms,iam,sts,cloudformation,logs \
    setsid "$root/venv/bin/localstack-supervisor" >"$root/localstack.log" 2>&1 & echo $! >"$root/pid"
  for _ in $(seq 300); do
    grep -q '^Ready\.' "$root/localstack.log" 2>/dev/null && status >/dev/null && database && return
    kill -0 "$(cat "$root/pid")" 2>/dev/null || break
    sleep .2
  done
  tail -30 "$root/localstack.log" >&2; return 1
}

stop() {
  [ -e "$root/pid" ] || return 0
  p=$(cat "$root/pid"); kill "$p" 2>/dev/null || true
  for _ in $(seq 60); do kill -0 "$p" 2>/dev/null || break; sleep .25; done
  # What a supervisor that was too busy left behind: its group, and DynamoDB's Java, which has a session of its own.
  kill -9 -- "-$p" 2>/dev/null || true
  pkill -9 -f -- "$root/fs/" || true
  rm -f "$root/pid"
}

# LocalStack starts DynamoDB Local when it is first asked for tables.
database() {
  curl -sf "http://127.0.0.1:$LS_PORT/" -d '{}' -o /dev/null -H 'X-Amz-Target: DynamoDB_20120810.ListTables' \
    -H 'Content-Type: application/x-amz-json-1.0' \
    -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/eu-central-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0'
}

status() { [ -e "$root/pid" ] && kill -0 "$(cat "$root/pid")" 2>/dev/null && curl -sf "http://127.0.0.1:$LS_PORT/_localstack/health"; }

# eval "$(scripts/localstack.sh env)". Requests for DynamoDB, which are most, go to DynamoDB Local itself: LocalStack would
# only pass them on, in a process that has one processor for everything.
environment() { echo "export AWS_ENDPOINT_URL=http://127.0.0.1:$LS_PORT AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:$DDB_PORT AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=eu-central-1 AWS_DEFAULT_REGION=eu-central-1"; }

case "${1:-start}" in setup) setup ;; start) start ;; stop) stop ;; restart) stop; start ;; status) status ;; env) environment ;; python) shift; "$root/venv/bin/python" "$@" ;; *) exit 2 ;; esac
