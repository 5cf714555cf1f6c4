#!/usr/bin/env bash
# Installs what the build and the tests need on Debian 12 or later or Ubuntu 24.04 or later.
# Does nothing where everything is there already. Packages given as arguments are installed too,
# where the distribution still has them. Plots of scripts/report.py need python3-matplotlib too, which
# brings some 50 packages, so it is not among them: its tests are skipped where it is missing.
# The one library that no distribution has, xgrammar, is compiled (install_xgrammar.sh).
set -euo pipefail
packages=(g++ cmake ninja-build pkg-config python3 libfmt-dev libsimdjson-dev libcli11-dev
          libsentencepiece-dev libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev zstd
          doctest-dev)
python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)
is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

install_packages() {
  local missing=() wanted=() as_root=() package
  for package in "${packages[@]}"; do is_installed "$package" || missing+=("$package"); done
  for package in "$@"; do is_installed "$package" || wanted+=("$package"); done
  [ $((${#missing[@]} + ${#wanted[@]})) -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  for package in "${wanted[@]}"; do
    [ -n "$(apt-cache search --names-only "^$package\$")" ] && missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing: ${missing[*]}" >&2
  "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_packages "$@"
"$(dirname "$0")/install_xgrammar.sh"
