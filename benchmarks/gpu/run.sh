#!/usr/bin/env bash
# Runs all tests and benchmarks that want a GPU, from the bundle that pack.sh made and that lies beside this script.
#
#   run.sh [-q] [-t SECONDS] [-s SECONDS] [-o "STEP..."] [RESULTS]
#
#   -q  quick: few cases and steps, as for the emulated driver
#   -t  time limit of everything (1500); steps for which nothing is left are not run
#   -s  time limit of one step (420)
#   -o  only these steps, of: facts tests sanitizer replay gemm naive mnist alloc
#
# RESULTS (results) gets at most 8 files: summary.md, steps.json, facts.txt, naive.json, naive.svg, mnist.json, alloc.json
# and logs.tar.gz, which also has gemm.json. No failure stops the run. The exit code is 0 if every step passed or had a reason to be skipped.
#
# Settings of the environment are added to the arguments of programs: TEST_ARGS, GEMM_ARGS, NAIVE_ARGS, MNIST_ARGS, ALLOC_ARGS, and
# DEVICE (cuda:0). Needs bash, tar, gzip and timeout; uses nvidia-smi, compute-sanitizer and python3 with PyTorch if there.
set -uo pipefail

quick="" total=1500 each=420 only="facts tests sanitizer replay gemm naive mnist alloc"
while getopts qt:s:o: flag; do
	case $flag in
	q) quick=1 ;;
	t) total=$OPTARG ;;
	s) each=$OPTARG ;;
	o) only=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "${1:-results}" || exit 2
results=$(cd "${1:-results}" && pwd)
device=${DEVICE:-cuda:0}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=$work/logs
mkdir "$logs"
if [[ -f $here/bundle.tar.xz ]]; then
	tar -C "$work" -xJf "$here/bundle.tar.xz" || exit 2
else
	tar -C "$work" -xzf "$here/bundle.tar.gz" || exit 2
fi
bin=$work/bin
export CISTERN_GPU_TESTS=1
# The driver compiles kernels at their first load, a minute for all of them, and keeps the result here for the next process.
if [[ -z ${CUDA_CACHE_PATH:-} ]] && ! mkdir -p "${HOME:-/nonexistent}/.nv/ComputeCache" 2>/dev/null; then
	export CUDA_CACHE_PATH=${TMPDIR:-/tmp}/cistern-compute-cache
fi
export CUDA_CACHE_MAXSIZE=${CUDA_CACHE_MAXSIZE:-1073741824}

failures=0 # of steps
rows=""    # of the summary's table
json=""    # of steps.json

# note records a step's end: name, exit code or a word, seconds, remark.
note() {
	rows+="| $1 | $2 | $3 | $4 |"$'\n'
	json+="${json:+,}"$'\n'"  {\"step\": \"$1\", \"exit\": \"$2\", \"seconds\": $3, \"remark\": \"${4//[\"\\]/}\"}"
	[[ $2 == 0 || $2 == skipped ]] || ((failures += 1))
	echo "== $1: $2 after $3 s $4" >&2
}

# step runs a command under both time limits, in folder $2, with its output in a log.
step() {
	local name=$1 folder=$2 left=$((total - SECONDS)) begin=$SECONDS code remark=""
	shift 2
	if ((left < 3)); then
		note "$name" "no time left" 0 "not run"
		return
	fi
	((left < each)) || left=$each
	(cd "$folder" && timeout -k 10 "$left" "$@") >"$logs/$name.log" 2>"$logs/$name.err"
	code=$?
	((code != 124 && code != 137)) || remark="ended by the time limit of $left s"
	note "$name" "$code" $((SECONDS - begin)) "$remark$(count "$logs/$name.log")"
}

# count says how many tests a log of -test.v names, and how many of them were skipped or failed.
count() {
	local pass fail skip
	pass=$(grep -c -- '--- PASS' "$1") fail=$(grep -c -- '--- FAIL' "$1") skip=$(grep -c -- '--- SKIP' "$1")
	((pass + fail + skip == 0)) || echo " $pass passed, $fail failed, $skip skipped"
}

wanted() { [[ " $only " == *" $1 "* ]]; }

facts() {
	echo "date: $(date -u +%FT%TZ)"
	echo "commit: $(cat "$work/COMMIT")"
	echo "built with: $(cat "$work/GO")"
	echo "system: $(uname -srm)"
	echo "processor: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), $(nproc) threads"
	echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
	[[ -z ${CISTERN_CUDA_LIBRARY:-} ]] || echo "CUDA library: $(basename "$CISTERN_CUDA_LIBRARY"), chosen by CISTERN_CUDA_LIBRARY"
	if command -v nvidia-smi >/dev/null; then
		nvidia-smi --query-gpu=index,name,driver_version,memory.total,memory.used,clocks.sm,clocks.max.sm,power.limit,compute_mode,mig.mode.current --format=csv
		nvidia-smi
	else
		echo "nvidia-smi: not found"
	fi
	[[ ! -r /proc/driver/nvidia/version ]] || cat /proc/driver/nvidia/version
	if command -v compute-sanitizer >/dev/null; then compute-sanitizer --version; else echo "compute-sanitizer: not found"; fi
	if [[ -x /usr/bin/python3 ]]; then
		timeout 120 /usr/bin/python3 -c 'import torch; print("PyTorch:", torch.__version__, "CUDA", torch.version.cuda, torch.cuda.is_available())' 2>&1 | tail -1
	else
		echo "PyTorch: no /usr/bin/python3"
	fi
}

run_tests() {
	local binary name args
	for binary in "$bin"/*.test; do
		name=$(basename "$binary" .test) args=""
		[[ $name != kernels_cuda || -z $quick ]] || args="-every 60"
		# shellcheck disable=SC2086 # lists of arguments
		step "test-$name" "$work/tests/$name" "$binary" -test.run '^TestGPU' -test.v -test.timeout 0 $args ${TEST_ARGS:-}
		if ! grep -q -- '--- PASS' "$logs/test-$name.log"; then
			note "test-$name-ran" 1 0 "no test passed: nothing was tested"
		fi
	done
}

# run_sanitizer looks for wrong accesses and races in a few cases of each kernel: it is some hundred times slower.
run_sanitizer() {
	local tool
	if ! command -v compute-sanitizer >/dev/null; then
		note sanitizer skipped 0 "compute-sanitizer is not installed"
		return
	fi
	for tool in memcheck racecheck; do
		step "sanitizer-$tool" "$work/tests/kernels_cuda" compute-sanitizer --tool $tool --error-exitcode 86 \
			"$bin/kernels_cuda.test" -test.run '^TestGPU_Conformance$' -test.v -test.timeout 0 -every 150
	done
}

naive_args="-runs 5 -steps 300 -pairs 20000" mnist_args="-epochs 5" alloc_args="-runs 5 -duration 100ms"
gemm_args="-runs 5"
if [[ -n $quick ]]; then
	naive_args="-runs 1 -steps 1 -pairs 200" mnist_args="-epochs 1 -hidden 8 -batch 2000" alloc_args="-runs 1 -duration 1ms -holes 100"
	gemm_args="-runs 1 -duration 1ms -sizes 64"
fi
# What is in $naive_args and its like are lists of arguments.
# shellcheck disable=SC2086
{
	if wanted facts; then
		facts >"$results/facts.txt" 2>&1
	fi
	if wanted tests; then run_tests; fi
	if wanted sanitizer; then run_sanitizer; fi
	if wanted replay; then
		if [[ -d $work/traces/expected ]]; then
			step replay "$work" "$bin/replay" -all traces
		else
			note replay skipped 0 "the bundle has no expected files"
		fi
	fi
	if wanted gemm; then
		step gemm "$work" "$bin/gemm" -device "$device" $gemm_args -json "$logs/gemm.json" ${GEMM_ARGS:-}
	fi
	if wanted naive; then
		step naive "$work" "$bin/naive" -device "$device" -traces traces $naive_args -json "$results/naive.json" \
			-plot "$results/naive.svg" ${NAIVE_ARGS:-}
	fi
	if wanted mnist; then
		step mnist "$work" "$bin/mnist" -device "$device" $mnist_args -json "$results/mnist.json" ${MNIST_ARGS:-}
	fi
	if wanted alloc; then
		args=$alloc_args
		if [[ -f $work/traces/bench_mix64.trace.gz && -f $work/traces/gpt_fixed.trace.gz ]]; then args="-traces traces $args"; fi
		step alloc "$work" "$bin/alloc" $args -json ${ALLOC_ARGS:-}
		[[ ! -s $logs/alloc.log ]] || cp "$logs/alloc.log" "$results/alloc.json"
	fi
}

# block prints a file's beginning as code, under a title, if it has anything.
block() {
	[[ -s $2 ]] || return 0
	printf '\n## %s\n\n```\n' "$1"
	head -n "${3:-60}" "$2"
	printf '```\n'
}

grep -h -- '--- FAIL' "$logs"/*.log >"$work/failed" 2>/dev/null
for file in "$logs"/*.err; do
	[[ -s $file && $file != */mnist.err ]] && { echo "$(basename "$file"):"; tail -n 5 "$file"; } # mnist draws its bars there
done >"$work/errors" 2>/dev/null
{
	printf '# GPU run of commit %s on %s, %s\n\n' "$(cat "$work/COMMIT")" "$device" "$(date -u +%F)"
	printf '%d steps failed; %d s in all%s.\n\n' "$failures" "$SECONDS" "${quick:+; quick settings, so no figure counts}"
	printf '| step | exit | seconds | remark |\n|---|---|---|---|\n%s' "$rows"
	block "Failed tests" "$work/failed" 80
	block "Errors" "$work/errors" 60
	block "The machine" "$results/facts.txt" 40
	block "gemm" "$logs/gemm.log" 140
	block "naive" "$logs/naive.log" 90
	block "mnist" "$logs/mnist.log" 40
} >"$results/summary.md"
printf '[%s\n]\n' "$json" >"$results/steps.json"
tar -C "$work" -czf "$results/logs.tar.gz" logs

echo "results: $results" >&2
((failures == 0))
