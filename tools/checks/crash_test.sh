#!/bin/sh
# Kills the program 1,000 times (or as often as the argument says) at random moments and resumes it.
# Takes the tests that scripts/test.sh or cmake has built in build/.
set -eu
cd "$(dirname "$0")/../.."
PAGEDINFER_CRASHES="${1:-1000}" build/tests/pagedinfer_tests -tc="a run killed at random moments*"
