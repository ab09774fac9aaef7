#!/bin/sh
# Counts how large a checkout is: scripts/lines.sh DIR... prints a table with a column for each folder (default: .).
# It builds nothing, so it can count any commit. Left out are folders with generated files, files of others and test
# data. Product is the code that users and AWS run. Proof is code outside *_test.go that only checks the product.
set -eu
[ $# -gt 0 ] || set -- .
for dir; do [ -d "$dir" ] || { echo "no folder $dir" >&2; exit 1; }; done

count() {
  cd "$1"
  find . \( -name '.?*' -o -name testdata -o -name node_modules -o -name vendor -o -name dist -o -name cdk.out \) \
    -prune -o -type f -print | sed 's#^\./##' | sort | awk '
    function kind(f) {
      if (f ~ /^scripts\// && f ~ /\.(go|sh|py|mjs|js)$/) return "scripts"
      if (f ~ /\.md$/) return f ~ /^docs\/adr\// ? "" : "docs"
      if (f ~ /\/static\/.*\.js$/) return "panel"
      if (f !~ /\.go$/) return ""
      if (f ~ /_test\.go$/) return "tests"
      if (f ~ /^internal\/(proof|sim|scenario|linear|invariant|imports|docs|recording)\//) return "proof"
      if (f ~ /test\// || f ~ /^infra\/(iam|cloudwatch|local|smoke)\//) return "proof"
      if (f ~ /^(events|functions|internal|infra\/stacks|infra\/stage)\// || f ~ /^infra\/[^\/]*$/) return "product"
    }
    {
      file = $0
      folder = file; sub(/\/?[^\/]*$/, "", folder)
      if (file ~ /^internal\/[^\/]*\//) { split(file, part, "/"); if (!seen[part[2]]++) folders++ }
      if (file ~ /\.go$/ && !packages[folder]++) n["packages"]++
      k = kind(file)
      if (k == "") next
      begin = 0; line = 0
      while ((getline text < file) > 0) {
        n[k]++; line++
        if (k == "docs") words += split(text, unused)
        if (k != "product") continue
        if (text ~ /^func / && text !~ /}$/) begin = line
        if (text ~ /^}/ && begin) { if (line - begin + 1 > 60) long++; begin = 0 }
      }
      close(file)
    }
    END {
      print "folders directly under internal|" folders + 0
      print "Go packages|" n["packages"] + 0
      print "product, lines of Go|" n["product"] + 0
      print "proof, lines of Go|" n["proof"] + 0
      print "tests, lines of Go|" n["tests"] + 0
      print "scripts, lines|" n["scripts"] + 0
      print "panel, lines of JavaScript|" n["panel"] + 0
      print "documentation without ADRs, words|" words + 0
      print "functions of product over 60 lines|" long + 0
    }'
}

for dir; do
  printf 'what|%s\n' "$dir"
  (count "$dir")
done | awk -F'|' '
  !($1 in cells) { order[++rows] = $1 }
  { cells[$1] = cells[$1] sprintf("%12s", $2) }
  END { for (i = 1; i <= rows; i++) printf "%-38s%s\n", order[i], cells[order[i]] }'
