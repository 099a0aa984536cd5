#!/usr/bin/env bash
# Runs all tests and benchmarks that want a GPU, from the bundle that pack.sh made and that lies beside this script.
#
#   run.sh [-q] [-t SECONDS] [-s SECONDS] [-o "STEP..."] [RESULTS]
#
#   -q  quick: few cases and steps, as for the emulated driver
#   -t  time limit of everything (540); steps for which nothing is left are not run
#   -s  time limit of one step, if it is less than the step's own
#   -o  only these steps, in the order below:
#       facts load tests bandwidth gemm launch naive train sanitizer examples ncu alloc
#       and fulltests, which is not run unless it is named
#
# RESULTS (results) gets summary.md, results.json (all figures), naive.svg and logs.tar.gz (the output of each step), anew after each
# step: what ends this script early takes only what was not yet run. The exit code is 0 if every step passed or had a reason to be
# skipped.
#
# Settings of the environment are added to the arguments of programs: TEST_ARGS, GEMM_ARGS, BANDWIDTH_ARGS, LAUNCH_ARGS, NAIVE_ARGS,
# TRAIN_ARGS, MNIST_ARGS, CNN_ARGS, ALLOC_ARGS; DEVICE is cuda:0; PYTHON is the Python that has PyTorch; CUDA_CACHE_PATH is the driver's
# cache of compiled kernels, which lasts until the next run. Needs bash, tar, grep, awk, timeout, and xz or Python; uses nvidia-smi,
# compute-sanitizer, ncu and PyTorch if they are there.
set -uo pipefail

quick="" total=540 each=600 only="facts load tests bandwidth gemm launch naive train sanitizer examples ncu alloc"
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

# How the figures came about, for who reads them: settings and flags, no folders of this machine.
command="run.sh${quick:+ -q} -o '$only'"
for setting in TEST_ARGS GEMM_ARGS BANDWIDTH_ARGS LAUNCH_ARGS NAIVE_ARGS TRAIN_ARGS MNIST_ARGS CNN_ARGS ALLOC_ARGS; do
	[[ -z ${!setting:-} ]] || command="$setting='${!setting}' $command"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
logs=$work/logs bin=$work/bin
mkdir "$logs"
: >"$work/steps.tsv"
if command -v xz >/dev/null; then
	xz -dc "$here/bundle.tar.xz" | tar -C "$work" -x || exit 2
else
	python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1], "r:xz").extractall(sys.argv[2])' "$here/bundle.tar.xz" "$work" || exit 2
fi

# Tools that installers leave outside of PATH.
for folder in /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer /opt/nvidia/nsight-compute/*/ /usr/local/nvidia/bin; do
	[[ ! -d $folder ]] || PATH+=:$folder
done

# The Python that has PyTorch. Its folder is where cuBLAS may be too.
python=${PYTHON:-}
for candidate in python3 /usr/bin/python3 /opt/*/.venv/bin/python3 /opt/*/bin/python3; do
	[[ -z $python ]] || break
	if "$candidate" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null; then
		python=$(command -v "$candidate")
	fi
done
if [[ -n $python && -z ${VIRTUAL_ENV:-} ]]; then
	prefix=$("$python" -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
	[[ -z $prefix ]] || export VIRTUAL_ENV=$prefix
fi

export CISTERN_GPU_TESTS=1 PYTHONUNBUFFERED=1
export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-${TMPDIR:-/tmp}/cistern-cuda-cache} CUDA_CACHE_MAXSIZE=4294967296

failures=0 # of steps

# collect writes the results of what has run so far.
collect() {
	"$bin/report" collect -run "$work" -out "$results" -device "$device" -command "$command" ${quick:+-quick} >"$work/targets" 2>"$work/collect.err" ||
		cat "$work/collect.err" >&2
	[[ ! -s $logs/naive.svg ]] || cp "$logs/naive.svg" "$results/"
	tar -C "$work" -czf "$results/logs.tar.gz.new" logs steps.tsv && mv "$results/logs.tar.gz.new" "$results/logs.tar.gz"
}

# note records a step's end: name, exit code or a word, seconds, remark.
note() {
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$work/steps.tsv"
	[[ $2 == 0 || $2 == skipped ]] || ((failures += 1))
	echo "== $1: $2 after $3 s $4" >&2
	collect
}

# step runs a command in folder $3 with its output in a log, under its own limit of $2 seconds, that of -s and what is left of -t.
step() {
	local name=$1 limit=$2 folder=$3 left=$((total - SECONDS)) begin=$SECONDS code remark=""
	shift 3
	if ((left < 3)); then
		note "$name" "no time left" 0 "not run"
		return 1
	fi
	((limit < each)) || limit=$each
	((limit < left)) || limit=$left
	(cd "$folder" && timeout -k 5 "$limit" "$@") >"$logs/$name.log" 2>"$logs/$name.err"
	code=$?
	((code != 124 && code != 137)) || remark="ended by the time limit of $limit s; "
	note "$name" "$code" $((SECONDS - begin)) "$remark$(count "$logs/$name.log")"
	return $code
}

# count says how many tests a log of -test.v names, how many of them were skipped or failed, and what the sanitizer sums up.
count() {
	local pass fail skip errors
	pass=$(grep -c -- '--- PASS' "$1") fail=$(grep -c -- '--- FAIL' "$1") skip=$(grep -c -- '--- SKIP' "$1")
	((pass + fail + skip == 0)) || printf '%s' "$pass passed, $fail failed, $skip skipped; "
	errors=$(grep -c '^ *Error: ' "$1") # of a test that was ended before it said that it failed
	((errors == 0)) || printf '%s' "$errors errors; "
	grep -o '[A-Z]* SUMMARY: .*' "$1" | tail -n 1
}

wanted() { [[ " $only " == *" $1 "* ]]; }

facts() {
	echo "date: $(date -u +%FT%TZ)"
	echo "commit: $(cat "$work/COMMIT")"
	echo "built with: $(cat "$work/GO")"
	echo "system: $(uname -sm)"
	echo "processor: $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2- | xargs), $(nproc) threads"
	echo "load: $(cut -d' ' -f1-3 /proc/loadavg)"
	[[ -z ${CISTERN_CUDA_LIBRARY:-} ]] || echo "CUDA library: $(basename "$CISTERN_CUDA_LIBRARY"), chosen by CISTERN_CUDA_LIBRARY"
	if command -v nvidia-smi >/dev/null; then
		nvidia-smi --query-gpu=index,name,driver_version,memory.total,memory.used,clocks.sm,clocks.max.sm,clocks.max.mem,power.limit,compute_mode,mig.mode.current --format=csv
		nvidia-smi
	else
		echo "nvidia-smi: not found"
	fi
	[[ ! -r /proc/driver/nvidia/version ]] || cat /proc/driver/nvidia/version
	for tool in compute-sanitizer ncu; do
		if command -v $tool >/dev/null; then $tool --version | tail -n 1; else echo "$tool: not found"; fi
	done
	if [[ -n $python ]]; then
		"$python" -c 'import torch; print("PyTorch:", torch.__version__, "CUDA", torch.version.cuda, torch.cuda.is_available())' 2>&1 | tail -n 1
	else
		echo "PyTorch: no Python has it"
	fi
}

# run_tests runs all test binaries; $1 goes before their steps' names, $2 is their limit, $3 the part of the kernels' cases.
run_tests() {
	local binary name args
	for binary in "$bin"/*.test; do
		name=$(basename "$binary" .test) args=""
		[[ $name != kernels_cuda ]] || args="-every $3"
		run_binary "$1-$name" "$2" "$name" "$args"
	done
}

# run_binary runs the tests of binary $3 as step $1 with arguments $4. An error that loses the device fails all tests after
# it: they run again, in a new process, without the one that it showed in; four times at most.
run_binary() {
	local name=$1 limit=$2 binary=$3 args=$4 round lost without=""
	[[ -z $quick || $binary != kernels_cuda ]] || without=SameBits # it takes minutes on the emulated driver
	for round in "" -2 -3 -4 -5; do
		# shellcheck disable=SC2086 # lists of arguments
		step "$name$round" "$limit" "$work/tests/$binary" "$bin/$binary.test" -test.run '^TestGPU' ${without:+-test.skip "$without"} -test.v \
			-test.timeout 0 $args ${TEST_ARGS:-} && break
		lost=$(lost_in "$logs/$name$round.log")
		[[ -n $lost && $without != *"$lost"* ]] || break
		echo "the device was lost in $lost" >>"$logs/$name$round.err"
		without+=${without:+|}$lost
	done
	if [[ -f $logs/$name.log ]] && ! grep -q -- '--- PASS' "$logs/$name"*.log; then
		note "$name-ran" 1 0 "no test passed: nothing was tested"
	fi
}

# lost_in is a pattern for the test of a log in which the first error was that loses the device, and nothing if there was none.
lost_in() {
	[[ -f $1 ]] || return
	awk '/^=== RUN / { name = $3 }
		/CUDA_ERROR_(ILLEGAL|LAUNCH_FAILED|LAUNCH_TIMEOUT|MISALIGNED|HARDWARE|INVALID_(ADDRESS_SPACE|PC)|ASSERT|ECC|CONTAINED|TENSOR)/ && name != "" {
			n = split(name, part, "/"); gsub(/[][().*+?^$|\\{}]/, ".", part[1]); pattern = "^" part[1] "$"
			for (i = 2; i <= n && i <= 3; i++) { gsub(/[][().*+?^$|\\{}]/, ".", part[i]); pattern = pattern "/^" part[i] "$" }
			print pattern; exit
		}' "$1"
}

# run_sanitizer looks for wrong accesses, races, reads of nothing and misplaced barriers in a few cases of each kernel: it is some
# hundred times slower. A tool that does not come to its end has still said what it found.
run_sanitizer() {
	local tool
	if ! command -v compute-sanitizer >/dev/null; then
		note sanitizer skipped 0 "compute-sanitizer is not installed"
		return
	fi
	for tool in memcheck racecheck synccheck initcheck; do
		# shellcheck disable=SC2086 # lists of arguments
		step "sanitizer-$tool" 60 "$work/tests/kernels_cuda" compute-sanitizer --tool $tool --error-exitcode 86 --print-limit 20 \
			"$bin/kernels_cuda.test" -test.run '^TestGPU_Conformance$' -test.v -test.timeout 0 -every 300 ${TEST_ARGS:-}
	done
}

# run_train trains two GPTs, a small one as the host does, and a larger one in three precisions; both also in PyTorch.
run_train() {
	local small large torch
	step gpt-start 60 "$work" "$bin/gpt" -device "$device" -text text.txt -steps 0 -sample 0 $gpt_model -save small.safetensors ${TRAIN_ARGS:-} &&
		step gpt 60 "$work" "$bin/gpt" -device "$device" -text text.txt -sample 0 $gpt_model $gpt_args -json "$logs/gpt.json" ${TRAIN_ARGS:-}
	step amp-start 60 "$work" "$bin/gpt" -device "$device" -text text.txt -steps 0 -sample 0 $amp_model -save large.safetensors ${TRAIN_ARGS:-} &&
		step amp 90 "$work" "$bin/amp" -device "$device" -text text.txt -plot "" -overflow 0 $amp_model $amp_args -json "$logs/amp.json" ${TRAIN_ARGS:-}
	if [[ -z $python ]]; then
		note train-pytorch skipped 0 "no Python has PyTorch"
		return
	fi
	if ! "$python" -c 'import sys, torch; sys.exit(not (sys.argv[1] == "cpu" or torch.cuda.is_available()))' "${device/host/cpu}"; then
		note train-pytorch skipped 0 "PyTorch has no CUDA here"
		return
	fi
	torch=("$python" "$work/train.py" --device "${device/host/cpu}" $sdpa)
	small="${gpt_model//-/--} ${gpt_args//-/--}"
	step gpt-pytorch 60 "$work" "${torch[@]}" $small --json "$logs/gpt-pytorch.json" small.safetensors text.txt
	large="${amp_model//-/--} ${amp_args//-/--}"
	step amp-pytorch 90 "$work" "${torch[@]}" $large --amp off,fp16,bf16 --json "$logs/amp-pytorch.json" large.safetensors text.txt
}

run_ncu() {
	local metrics=gpu__time_duration.sum,dram__bytes.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed
	metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread,launch__occupancy_limit_registers
	if ! command -v ncu >/dev/null; then
		note ncu skipped 0 "ncu is not installed"
		return
	fi
	local profiler=(ncu --clock-control none --csv --page raw --metrics "$metrics")
	step ncu-gemm 45 "$work" "${profiler[@]}" --launch-count 40 --log-file "$logs/ncu-gemm.csv" "$bin/gemm" -device "$device" \
		-sizes $ncu_gemm -types float16,float32 -runs 1 -duration 1ns -python ""
	step ncu-bandwidth 60 "$work" "${profiler[@]}" --launch-count 200 --log-file "$logs/ncu-bandwidth.csv" "$bin/bandwidth" -device "$device" \
		-sizes $ncu_bandwidth -types float16 -runs 1 -duration 1ns -python ""
}

every=5 full=1 ncu_gemm=4096 ncu_bandwidth=256MiB
bandwidth_args="-sizes 256MiB,1GiB -runs 5 -duration 20ms"
gemm_args="-sizes 4096,1024,8192,8192x2304x768,8192x3072x768,8192x768x3072,8192x50304x768 -runs 3 -duration 30ms"
naive_args="-runs 3 -steps 100 -pairs 1000 -single 4KiB,2MiB,64MiB"
launch_args="" gpt_model="" gpt_args="-steps 300" sdpa="--sdpa"
amp_model="-layers 6 -width 384 -heads 6 -seq 256 -batch 64" amp_args="-steps 60"
mnist_args="-epochs 5" cnn_args="-epochs 2" alloc_args="-runs 5 -duration 100ms"
if [[ -n $quick ]]; then
	every=200 full=100 ncu_gemm=64 ncu_bandwidth=128KiB
	bandwidth_args="-sizes 128KiB -types float32,float16 -runs 1 -duration 1us"
	gemm_args="-runs 1 -duration 1ms -sizes 64,32x64x48"
	naive_args="-runs 1 -steps 1 -pairs 200 -single 4KiB,2MiB"
	launch_args="-runs 3 -duration 1ms" gpt_model="-layers 1 -width 16 -heads 2 -seq 16 -batch 2" gpt_args="-steps 2" sdpa=""
	amp_model="-layers 1 -width 32 -heads 2 -seq 16 -batch 2" amp_args="-steps 2"
	mnist_args="-epochs 1 -hidden 8 -batch 2000" alloc_args="-runs 1 -duration 1ms -holes 100"
fi
# What is in $naive_args and its like are lists of arguments.
# shellcheck disable=SC2086
{
	if wanted facts; then
		export -f facts
		export work python
		step facts 60 "$work" bash -c facts
		cp "$logs/facts.log" "$work/facts.txt"
	fi
	if wanted load; then
		step load 180 "$work" "$bin/load" -device "$device" -ptx ptx -cache "$CUDA_CACHE_PATH" -json "$logs/load.json"
	fi
	if wanted tests; then run_tests test 90 $every; fi
	if wanted bandwidth; then
		step bandwidth 130 "$work" "$bin/bandwidth" -device "$device" -python "$python" $bandwidth_args -json "$logs/bandwidth.json" ${BANDWIDTH_ARGS:-}
	fi
	if wanted gemm; then
		step gemm 130 "$work" "$bin/gemm" -device "$device" -python "$python" $gemm_args -json "$logs/gemm.json" ${GEMM_ARGS:-}
	fi
	if wanted launch; then
		step launch 90 "$work" "$bin/launch" -device "$device" -python "$python" $launch_args -json "$logs/launch.json" ${LAUNCH_ARGS:-}
	fi
	if wanted naive; then
		step naive 200 "$work" "$bin/naive" -device "$device" -python "$python" -traces traces $naive_args -json "$logs/naive.json" \
			-plot "$logs/naive.svg" ${NAIVE_ARGS:-}
	fi
	if wanted train; then run_train; fi
	if wanted sanitizer; then run_sanitizer; fi
	if wanted examples; then
		step mnist 60 "$work" "$bin/mnist" -device "$device" $mnist_args -json "$logs/mnist.json" ${MNIST_ARGS:-}
		if [[ -n $quick ]]; then
			note cnn skipped 0 "too long for the emulated driver"
		else
			step cnn 60 "$work" "$bin/cnn" -device "$device" $cnn_args -json "$logs/cnn.json" ${CNN_ARGS:-}
		fi
	fi
	if wanted ncu; then run_ncu; fi
	if wanted alloc; then
		args=$alloc_args
		if [[ -f $work/traces/bench_mix64.trace.gz && -f $work/traces/gpt_fixed.trace.gz ]]; then args="-traces traces $args"; fi
		step alloc 60 "$work" "$bin/alloc" $args -json ${ALLOC_ARGS:-}
		[[ ! -s $logs/alloc.log ]] || cp "$logs/alloc.log" "$logs/alloc.json"
	fi
	if wanted fulltests; then run_tests full 400 $full; fi
}
collect

cat "$work/targets"
echo "results: $results" >&2
((failures == 0))
