#!/usr/bin/env bash
# Tries the packages of dist/, which are made if they are not there. In fresh roots of Debian 12 and
# Ubuntu 24.04 the archive, and on Debian the .deb, complete the bundled prompts with the bytes of
# this machine, and leave no file when they are removed. So does the wheel in a fresh virtual
# environment, where its module passes its tests. Says SKIPPED where there is no mirror, or no right
# to make roots.
set -euo pipefail
cd "$(dirname "$0")/.."
debian=http://deb.debian.org/debian
ubuntu=http://archive.ubuntu.com/ubuntu
# Debian 12 has no package of Ubuntu's keys.
keys=pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb
keys_sha256=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

skip() { echo "SKIPPED: $1"; exit 0; }
for mirror in "$debian/dists/bookworm" "$ubuntu/dists/noble"; do
  curl -sfI -m 20 -o /dev/null "$mirror/InRelease" || skip "there is no mirror of $mirror"
done
if ! command -v mmdebstrap >/dev/null; then
  [ "$(id -u)" -eq 0 ] || skip "mmdebstrap is not installed"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null ||
    skip "mmdebstrap cannot be installed"
fi
[ -e dist/SHA256SUMS ] || scripts/package.sh
(cd dist && sha256sum --quiet -c SHA256SUMS)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"  # apt reads its keys as a user of its own
packages=$work/packages
mkdir "$packages"
cp dist/*.deb dist/*.tar.gz datasets/prompts.jsonl "$packages/"
mkdir "$work/here"
tar -xzf dist/*.tar.gz -C "$work/here" --strip-components=1

# Beside the archive, the build it was made of, if that is still there.
complete() { "$1" run --quiet --device cpu --input datasets/prompts.jsonl --output "$2"; }
complete "$work/here/bin/pagedinfer" "$packages/expected"
for build in build build-package; do
  [ -x "$build/pagedinfer" ] || continue
  complete "$build/pagedinfer" "$work/$build"
  cmp "$work/$build" "$packages/expected"
done

cat > "$packages/try.sh" <<'SH'
set -eu
cd /packages
files() { find / -xdev \( -path /proc -o -path /sys -o -path /packages -o -path /tmp -o -path /var \) -prune -o -print | LC_ALL=C sort; }
try() {
  "$1" --version
  "$1" run --quiet --input prompts.jsonl --output found
  cmp found expected
  rm found*
}
mkdir /opt/pagedinfer
tar -xzf pagedinfer-*.tar.gz -C /opt/pagedinfer --strip-components=1 --no-same-owner
try /opt/pagedinfer/bin/pagedinfer
rm -r /opt/pagedinfer
[ "${1:-}" = deb ] || exit 0
# Its libraries first, which stay.
apt-get install -y -qq $(dpkg-deb -f pagedinfer_*.deb Depends | sed 's/([^)]*)//g; s/,//g') >/dev/null 2>&1
files > before
apt-get install -y -qq ./pagedinfer_*.deb >/dev/null 2>&1
files > during
if cmp -s before during; then echo "the .deb has installed nothing" >&2; exit 1; fi
try pagedinfer
apt-get remove -y -qq pagedinfer >/dev/null 2>&1
files > after
diff before after
[ -z "$(find /var -name '*pagedinfer*' ! -path '/var/cache/apt/*')" ]
SH
try_in() {  # SUITE MIRROR VARIANT WORDS
  echo "$1:"
  mmdebstrap --quiet --variant="$3" --keyring="$work/keys" \
    --customize-hook="copy-in $packages /" \
    --customize-hook="chroot \"\$1\" sh /packages/try.sh $4" "$1" /dev/null "$2"
}
mkdir "$work/keys"
curl -sf -m 60 -o "$work/keys.deb" "$ubuntu/$keys"
echo "$keys_sha256  $work/keys.deb" | sha256sum --quiet -c
dpkg-deb -x "$work/keys.deb" "$work/unpacked"
cp "$work/unpacked/usr/share/keyrings/ubuntu-archive-keyring.gpg" /usr/share/keyrings/debian-archive-keyring.gpg \
  "$work/keys/"
try_in bookworm "$debian" apt deb
try_in noble "$ubuntu" essential ""

wheel=$(find dist -name '*.whl')
[ -n "$wheel" ] || exit 0
echo "$wheel:"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$wheel"
complete "$work/venv/bin/pagedinfer" "$work/by_wheel"
cmp "$work/by_wheel" "$packages/expected"
PAGEDINFER_INSTALLED=1 "$work/venv/bin/python" tests/python/test_module.py
"$work/venv/bin/pip" uninstall -q -y pagedinfer
left=$(find "$work/venv" -iname '*pagedinfer*')
[ -z "$left" ] || { echo "the wheel leaves $left" >&2; exit 1; }
