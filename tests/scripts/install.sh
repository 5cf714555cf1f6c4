#!/usr/bin/env bash
# What cmake --install installs works from there: install.sh BUILD. The manual page has no fault, and
# shells complete the command line; what a machine lacks for that is skipped.
set -euo pipefail
build=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/prefix" >/dev/null
cd "$dir"
share=prefix/share
for file in doc/pagedinfer/{LICENSE,copyright,CHANGELOG.md} pagedinfer/prompts.jsonl \
  pagedinfer/qwen3-4b/config.json man/man1/pagedinfer.1 bash-completion/completions/pagedinfer \
  zsh/site-functions/_pagedinfer fish/vendor_completions.d/pagedinfer.fish; do
  [ -s "$share/$file" ] || { echo "$file is not installed" >&2; exit 1; }
done

head -20 "$share/pagedinfer/prompts.jsonl" > prompts.jsonl
for model in story-llama story-qwen3 story-gemma3; do
  PATH="$dir/prefix/bin:$PATH" pagedinfer run --quiet --overwrite --model "$model" \
    --input prompts.jsonl --output installed
  "$build/pagedinfer" run --quiet --overwrite --model "$model" --input prompts.jsonl --output built
  cmp installed built
done

if command -v groff >/dev/null; then
  groff -man -Tascii -P -cbou -ww "$share/man/man1/pagedinfer.1" >page 2>faults
  grep -q -- --exit-zero-on-error-records page
  if [ -s faults ]; then cat faults >&2; exit 1; fi
fi
# No date, so that the same commit gives the same page.
if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning "$share/man/man1/pagedinfer.1" >faults || true
  if grep -v 'missing date' faults >&2; then exit 1; fi
fi

# What bash proposes for the last of the words.
proposed() {
  bash -c 'compopt() { :; }
    source '"$share"'/bash-completion/completions/pagedinfer
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _pagedinfer && printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}
expect() {  # EXPECTED WORDS
  local found
  found=$(proposed "${@:2}" | sort | xargs)
  [ "$found" = "$1" ] || { echo "${*:2}: bash proposes '$found', expected '$1'" >&2; exit 1; }
}
expect "plan" pagedinfer pl
expect "--generate" pagedinfer --g
expect "bash fish man zsh" pagedinfer --generate ""
expect "--max-batch-size --max-model-len --max-prefill-chunks --max-step-tokens --max-tokens" \
  pagedinfer run --max
expect "auto" pagedinfer run --device au
expect "auto cpu cuda" pagedinfer run --quiet --device = ""
expect "cpu cuda" pagedinfer plan --input x --device = c
expect "prompts.jsonl" pagedinfer run --input prom
expect "prompts.jsonl" pagedinfer merge prom
expect "" pagedinfer run --max-tokens ""
expect "prefix" pagedinfer run --model p
expect "none" pagedinfer run --chat-template no
expect "--logits --lora" pagedinfer verify --lo
bash -c 'source '"$share"'/bash-completion/completions/pagedinfer; complete -p pagedinfer' |
  grep -- '-F _pagedinfer pagedinfer' >/dev/null

if command -v zsh >/dev/null; then
  zsh -n "$share/zsh/site-functions/_pagedinfer"
else
  echo "zsh is not there: its completion is not tried" >&2
fi
if command -v fish >/dev/null; then
  fish=(fish --no-config -c "source $share/fish/vendor_completions.d/pagedinfer.fish; complete -C \"\$argv\"")
  of_fish() { "${fish[@]}" "$1" | cut -f1 | xargs; }
  [ "$(of_fish "pagedinfer ver")" = verify ]
  [ "$(of_fish "pagedinfer run --kv-dty")" = --kv-dtype ]
  [ "$(of_fish "pagedinfer run --device ")" = "auto cpu cuda" ]
  [ "$(of_fish "pagedinfer run --model pre")" = prefix/ ]
  [ "$(of_fish "pagedinfer merge prom")" = prompts.jsonl ]
else
  echo "fish is not there: its completion is not tried" >&2
fi
