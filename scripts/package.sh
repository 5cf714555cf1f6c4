#!/usr/bin/env bash
# Makes packages of the program in dist/, with SHA256SUMS:
#
#   scripts/package.sh [BUILD]      a .deb, which depends on this system's libraries; an archive, which
#                                   carries them and needs glibc only; a wheel, if python/ makes one
#   scripts/package.sh --check      tries them, see package_check.sh
#
# Without BUILD the program is that of build/ if it was built without CUDA, else that of
# build-package/, which is made. A package has no CUDA unless BUILD has: one GPU has tried the
# backend so far, and it would make each of them larger.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" != --check ] || exec scripts/package_check.sh
umask 022

no_cuda() { "$1/pagedinfer" --version 2>/dev/null | grep -q '^CUDA *none$'; }
build=${1:-build}
if [ $# = 0 ] && ! no_cuda build; then
  build="build-package"
  scripts/install_packages.sh
  cmake -G Ninja -B "$build" -DPAGEDINFER_TESTS=OFF -DPAGEDINFER_GRAMMAR=ON \
    -DPAGEDINFER_CUDA=OFF -DPAGEDINFER_UNITY=ON >/dev/null
fi
cmake --build "$build" --target pages
version=$("$build/pagedinfer" --version | sed -n '1s/^pagedinfer //p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf dist
mkdir dist

# Libraries that a program needs, but for those of glibc: path and name.
libraries_of() {
  ldd "$1" | awk '$3 ~ /^\// { print $3 }' |
    grep -Ev '/lib(c|m|dl|rt|pthread|resolv)\.so' || true
}

# The newest version of glibc whose symbols the files need.
glibc_of() {
  objdump -T "$@" | sed -n 's/.*(\?GLIBC_\([0-9.]*\))\? .*/\1/p' | sort -uV | tail -1
}

name="pagedinfer-$version-linux-x86_64"
make_archive() {
  local root="$work/$name" library file package elsewhere
  cmake --install "$build" --prefix "$root" --strip >/dev/null
  mkdir -p "$root/lib" "$root/share/doc/pagedinfer/third_party"
  for library in $(libraries_of "$build/pagedinfer"); do
    file=$(readlink -f "$library")
    strip -o "$root/lib/${library##*/}" "$file"
    package=$(dpkg-query -S "*/$(basename "${file%/*}")/${file##*/}" | sed -n '1s/:.*//p')
    cp "/usr/share/doc/$package/copyright" "$root/share/doc/pagedinfer/third_party/$package"
  done
  elsewhere=$(libraries_of "$root/bin/pagedinfer" | grep -v "^$root/" || true)
  if [ -n "$elsewhere" ]; then
    echo "the archive would look for libraries of this machine: $elsewhere" >&2
    exit 1
  fi
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
    gzip -9n > "dist/$name.tar.gz"
  glibc=$(glibc_of "$root/bin/pagedinfer" "$root"/lib/*)
  echo "dist/$name.tar.gz: needs glibc $glibc"
}

make_deb() {
  local root="$work/source/debian/pagedinfer" share depends date
  share="$root/usr/share"
  cmake --install "$build" --prefix "$root/usr" --strip >/dev/null
  # A package's libraries are where the system looks.
  echo "file(RPATH_REMOVE FILE $root/usr/bin/pagedinfer)" > "$work/no_rpath.cmake"
  cmake -P "$work/no_rpath.cmake"
  mkdir "$share/zsh/vendor-completions"
  mv "$share/zsh/site-functions/_pagedinfer" "$share/zsh/vendor-completions/"
  rmdir "$share/zsh/site-functions"
  rm "$share/doc/pagedinfer/LICENSE"  # its text is /usr/share/common-licenses/Apache-2.0
  mv "$share/doc/pagedinfer/CHANGELOG.md" "$share/doc/pagedinfer/changelog"
  date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")
  printf '%s\n' "pagedinfer ($version-1) unstable; urgency=medium" "" \
    "  * Version $version; what is new in it is in changelog.gz." "" \
    " -- $(sed -n 's/^Maintainer: //p' packaging/control)  $date" \
    > "$share/doc/pagedinfer/changelog.Debian"
  gzip -9n "$share/doc/pagedinfer/"changelog* "$share/man/man1/pagedinfer.1"

  printf 'Source: pagedinfer\n\nPackage: pagedinfer\nArchitecture: any\n' > "$work/source/debian/control"
  depends=$(cd "$work/source" && dpkg-shlibdeps -O debian/pagedinfer/usr/bin/pagedinfer)
  mkdir "$root/DEBIAN"
  sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$(dpkg --print-architecture)/" \
    -e "s/@DEPENDS@/${depends#shlibs:Depends=}/; s/@KIB@/$(du -sk "$root/usr" | cut -f1)/" \
    packaging/control > "$root/DEBIAN/control"
  (cd "$root" && find usr -type f -printf '%P\n' | LC_ALL=C sort | sed 's|^|usr/|' | xargs md5sum) > "$work/md5sums"
  mv "$work/md5sums" "$root/DEBIAN/md5sums"
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --build --root-owner-group "$root" dist/ >/dev/null
}

make_archive
make_deb
# The wheel holds what the archive holds.
[ ! -e python/build_wheel.sh ] || python/build_wheel.sh "$work/$name" dist "$glibc"
(cd dist && sha256sum -- * > SHA256SUMS)
du -h --apparent-size dist/*
