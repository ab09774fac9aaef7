#!/usr/bin/env bash
# Prints the packages that differ from where this branch left main, as folders for the go command, and with them those
# that check the whole: the rules of imports, the document of the API, the names in the pages. It prints ./... where main is not known, where nothing differs, and where a change of the modules or
# of the linters' rules concerns every package.
set -euo pipefail
cd "$(dirname "$0")/.."

everything() { echo ./...; exit; }

base=$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null) || everything
files=$(git diff --name-only "$base"; git ls-files --others --exclude-standard)
[ -n "$files" ] || everything
if grep -qE '^(go\.mod|go\.sum|\.golangci\.yml)$' <<<"$files"; then everything; fi

folders=$'./internal/proof/imports\n./internal/api/httpapi/service\n./internal/proof/docs'
while read -r file; do
  # testdata and the like belong to the package above; a package may have no file that is built without a tag.
  folder=$(dirname "$file")
  while [[ $folder == *testdata* ]] || ! compgen -G "$folder/*.go" >/dev/null; do
    [ "$folder" = . ] && continue 2
    folder=$(dirname "$folder")
  done
  folders+=$'\n'./$folder
done <<<"$files"
# shellcheck disable=SC2086 # one argument a folder
go list -e -f '{{if or .GoFiles .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' $(sort -u <<<"$folders") | sed "s#^$PWD#.#"
