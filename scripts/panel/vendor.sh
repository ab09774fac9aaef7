#!/usr/bin/env bash
# Copies the panel's libraries out of npm's packages into a folder, with their licences: its argument, or
# internal/api/panel/static/vendor. npm has held
# the packages to the checksums of package-lock.json. Nothing is changed but what a browser needs without a build step:
# bare names of modules become paths, and two libraries that make a global variable export it.
set -euo pipefail
cd "$(dirname "$0")/../.."
from=.cache/panel/node_modules to=${1:-internal/api/panel/static/vendor}
mkdir -p "$to"
rm -f $to/*.js $to/*.css $to/LICENSES.txt

module() { # FILE NAME [EXPORT]: a module, or what makes a global variable
  sed -E -e '/^\/\/# sourceMappingURL=/d' \
    -e 's#(from|import)"preact"#\1"./preact.js"#g; s#(from|import)"preact/hooks"#\1"./hooks.js"#g' \
    -e 's#(from|import)"@preact/signals-core"#\1"./signals-core.js"#g' "$from/$1" >"$to/$2"
  [ -z "${3-}" ] || printf '\nexport default %s\n' "$3" >>"$to/$2"
}
module preact/dist/preact.mjs preact.js
module preact/hooks/dist/hooks.mjs hooks.js
module @preact/signals-core/dist/signals-core.mjs signals-core.js
module @preact/signals/dist/signals.mjs signals.js
module htm/dist/htm.mjs htm.js
module marked/lib/marked.esm.js marked.js
module dompurify/dist/purify.min.js dompurify.js globalThis.DOMPurify
module uplot/dist/uPlot.iife.min.js uplot.js uPlot
cp $from/uplot/dist/uPlot.min.css $to/uplot.css
sed -e '/^\/\*# sourceMappingURL=/d' $from/@picocss/pico/css/pico.classless.min.css >$to/pico.css

# What the types of these are, for whoever checks ours; npm's packages have them.
for name in preact hooks:preact/hooks signals:@preact/signals signals-core:@preact/signals-core marked; do
  printf "export * from '%s'\n" "${name#*:}" >"$to/${name%%:*}.d.ts"
done
for name in htm dompurify uplot; do
  printf "export { default } from '%s'\n" "$name" >"$to/$name.d.ts"
done

for package in preact @preact/signals @preact/signals-core htm marked dompurify uplot @picocss/pico; do
  printf '==== %s %s\n\n' "$package" "$(sed -n 's/^  "version": "\(.*\)",/\1/p' $from/$package/package.json | head -1)"
  cat $from/$package/LICENSE*
  printf '\n'
done >$to/LICENSES.txt
