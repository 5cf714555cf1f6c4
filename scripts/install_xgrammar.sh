#!/usr/bin/env bash
# Compiles xgrammar, the library that keeps answers in a given form, once for all builds of this
# user: a static library in ~/.cache/pagedinfer. Does nothing where it is there already. The source
# package comes through pip, at the version and hash of cmake/xgrammar/requirement.txt.
set -euo pipefail
cd "$(dirname "$0")/../cmake/xgrammar"
key=$(cat requirement.txt CMakeLists.txt | sha256sum | cut -c 1-16)
target=${XDG_CACHE_HOME:-$HOME/.cache}/pagedinfer/xgrammar-$key
[ -e "$target/lib/libxgrammar.a" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# pip asks a source package's build backend for its metadata, for which it would install that
# backend and what it needs. This stands in for it.
version=$(sed 's/^xgrammar==\([^ ]*\) .*/\1/' requirement.txt)
mkdir "$work/scikit_build_core"
cat >"$work/scikit_build_core/build.py" <<PYTHON
import pathlib


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    folder = pathlib.Path(directory) / "xgrammar.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: xgrammar\nVersion: $version\n")
    return folder.name


def build_wheel(directory, config_settings=None, metadata_directory=None):
    raise NotImplementedError
PYTHON
echo "compiling xgrammar" >&2
PYTHONPATH=$work python3 -m pip download -q --no-deps --no-build-isolation --no-binary xgrammar \
  --disable-pip-version-check -d "$work" -r requirement.txt
mkdir "$work/source"
tar -xf "$work"/xgrammar-*.tar.gz -C "$work/source" --strip-components=1
cmake -G Ninja -S . -B "$work/build" -DXGRAMMAR_SOURCE="$work/source" \
  -DCMAKE_INSTALL_PREFIX="$work/installed" >/dev/null
cmake --build "$work/build" --target install >/dev/null
mkdir -p "$(dirname "$target")"
# Two runs at once: the second finds the first one's.
mv -T "$work/installed" "$target" 2>/dev/null || [ -e "$target/lib/libxgrammar.a" ]
