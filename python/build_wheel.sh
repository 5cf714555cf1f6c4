#!/usr/bin/env bash
# Makes a wheel around a program:  python/build_wheel.sh FOLDER OUT [GLIBC]
#
# FOLDER is laid out as the archive is (bin/, lib/, share/); GLIBC is the version that its files
# need, found out if it is not given. The version is the program's. setuptools comes from PyPI
# unless SETUPTOOLS_PYTHON names an interpreter that has version 70.1 or later.
set -euo pipefail
folder=$(realpath "$1") out=$(realpath -m "$2") glibc=${3:-} here=$(realpath "$(dirname "$0")")
[ -n "$glibc" ] || glibc=$(find "$folder/bin" "$folder/lib" -type f -exec objdump -T {} + 2>/dev/null |
  sed -n 's/.*(\?GLIBC_\([0-9.]*\))\? .*/\1/p' | sort -uV | tail -1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${SETUPTOOLS_PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet 'setuptools>=70.1'
  python="$work/venv/bin/python"
fi
mkdir "$work/source"
cp -r "$here/pagedinfer" "$here/pyproject.toml" "$here/setup.py" "$work/source/"
find "$work/source" -name __pycache__ -exec rm -r {} +
mkdir "$work/source/pagedinfer/program"
for part in bin lib share/pagedinfer share/doc; do
  [ -e "$folder/$part" ] || continue
  mkdir -p "$work/source/pagedinfer/program/$(dirname "$part")"
  cp -rL "$folder/$part" "$work/source/pagedinfer/program/$part"
done
WHEEL_VERSION=$("$folder/bin/pagedinfer" --version | sed -n '1s/^pagedinfer //p')
WHEEL_PLATFORM="manylinux_${glibc/./_}_$(uname -m)"
export WHEEL_VERSION WHEEL_PLATFORM
mkdir -p "$out"
cd "$work/source"
"$python" setup.py --quiet bdist_wheel --dist-dir "$out"
