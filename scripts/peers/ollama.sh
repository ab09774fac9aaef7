#!/usr/bin/env bash
# Builds Ollama from its Go module, with C and C++. The module leaves out headers of others, whose packages are in
# ollama.txt.
#
#     ollama.sh PYTHON FOLDER
set -euo pipefail
version=0.17.4 python=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
packages=$(cd "$(dirname "$0")" && pwd)/ollama.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary libstb,miniaudio -d "$work" -r "$packages"
"$python" -m zipfile -e "$work"/nlohmann_json-*.whl "$work"
tar -xzf "$work"/libstb-*.tar.gz -C "$work"
tar -xzf "$work"/miniaudio-*.tar.gz -C "$work"
rm -rf "$folder/include"
mkdir -p "$folder"/include/{stb,miniaudio}
cp -r "$work"/nlohmann_json/include/nlohmann "$folder/include/"
cp "$work"/libstb-*/src/third_party/stb/stb_image.h "$folder/include/stb/"
cp "$work"/miniaudio-*/miniaudio/miniaudio.h "$folder/include/miniaudio/"

flags="-O3 -w"
if [ "$(go env GOARCH)" = amd64 ]; then
  flags="$flags -mavx -mavx2 -mfma -mf16c" # without these it is a hundred times slower
fi
GOFLAGS='' CGO_ENABLED=1 CGO_CPPFLAGS="-I$folder/include" CGO_CFLAGS=$flags CGO_CXXFLAGS=$flags GOBIN=$folder/bin \
  go install -ldflags "-s -w -X github.com/ollama/ollama/version.Version=$version" "github.com/ollama/ollama@v$version"
