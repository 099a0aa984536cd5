#!/usr/bin/env bash
# Runs tests and benchmarks on a machine with a GPU, from the bundle that pack.sh made and that lies beside this script.
#
#   run.sh [-q] [-t SECONDS] [-n] [-out FOLDER] [STEP...]
#
# STEP is a step or a call (one, two, three; "one" if nothing is named); -h lists them. FOLDER (results-STEP) gets summary.md,
# results.json and logs.tar.gz after each step. Needs bash, tar, and xz or Python; everything else is in the bundle
# (benchmarks/gpu/run), and what it finds it uses: nvidia-smi, compute-sanitizer, ncu, PyTorch. A run that is told to end (INT, TERM,
# HUP) ends its step and writes the results.
set -uo pipefail
begun=$(date +%s)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bundle=$(mktemp -d) || { echo "run.sh: no folder can be made in ${TMPDIR:-/tmp}; TMPDIR names another" >&2; exit 2; }
child=""
trap 'rm -rf "$bundle"' EXIT
trap '[[ -z $child ]] && exit 130; kill -TERM $child 2>/dev/null' INT TERM HUP
limit=()
command -v timeout >/dev/null && limit=(timeout -k 1 60)

# unpack tries what can read xz, in turn.
unpack() {
	local python
	if [[ ! -s $here/bundle.tar.xz ]]; then
		echo "run.sh: there is no bundle.tar.xz beside this script" >&2
		return 1
	fi
	if command -v xz >/dev/null && command -v tar >/dev/null; then
		"${limit[@]}" xz -dc "$here/bundle.tar.xz" | tar -C "$bundle" -x && return 0
		echo "run.sh: xz or tar failed: is the bundle whole, and is there room for 400 MB in ${TMPDIR:-/tmp} and in memory?" >&2
		rm -rf "${bundle:?}"/*
	fi
	for python in python3 /usr/bin/python3 /opt/*/.venv/bin/python3; do
		command -v "$python" >/dev/null || continue
		"${limit[@]}" "$python" -c 'import sys, tarfile
try:
    tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])
except Exception as e:
    sys.exit("run.sh: %s: %s" % (sys.executable, e))' "$here/bundle.tar.xz" "$bundle" && return 0
		rm -rf "${bundle:?}"/*
	done
	echo "run.sh: the bundle cannot be unpacked" >&2
	return 1
}

unpack || exit 2
"$bundle/bin/run" -bundle "$bundle" -begun "$begun" -device "${DEVICE:-cuda:0}" "$@" &
child=$!
code=0
wait $child || code=$?
while kill -0 $child 2>/dev/null; do # a signal ended the wait
	code=0
	wait $child || code=$?
done
exit $code
