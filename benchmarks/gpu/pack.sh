#!/usr/bin/env bash
# Packs what run.sh needs on a machine with a GPU and nothing else: test binaries, programs, PTX, scripts, traces.
#
#   benchmarks/gpu/pack.sh [TRACES [FOLDER]]
#
# TRACES is a folder of *.trace.gz, benchmarks/internal/replay/testdata if it is not given. FOLDER gets bundle.tar.xz and a
# copy of run.sh; it is dist/gpu, which git ignores. GOARCH=arm64 packs for that. Needs Go, tar and xz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

limit=40000000 # bytes of the bundle; more is an error, because some ways to a GPU are narrow
tests="device/cuda kernels/cuda memory tensor autograd amp"
programs="benchmarks/gpu/run benchmarks/gpu/smoke benchmarks/load benchmarks/train benchmarks/attention benchmarks/conv
	benchmarks/launch benchmarks/bandwidth benchmarks/gemm benchmarks/naive benchmarks/gpu/report
	examples/gpt"

if [[ ${1:-} == -* ]]; then
	echo "usage: pack.sh [TRACES [FOLDER]]" >&2
	exit 2
fi
traces=${1:-benchmarks/internal/replay/testdata}
out=${2:-dist/gpu}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/bundle
mkdir -p "$bundle/bin" "$bundle/traces" "$bundle/ptx" "$out"

commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
if [[ -n $(git status --porcelain 2>/dev/null) ]]; then
	commit+=+changes
fi
export CGO_ENABLED=0 GOOS=linux GOFLAGS="${GOFLAGS:-} -buildvcs=false"
flags="-s -w -X github.com/cistern-ml/cistern/benchmarks/internal/machine.Commit=$commit"

for package in $tests; do
	name=${package//\//_}
	echo "tests of $package" >&2
	go test -c -trimpath -ldflags="$flags" -o "$bundle/bin/$name.test" "./$package"
	mkdir -p "$bundle/tests/$name" # the folder in which they run
	if [[ -d $package/testdata ]]; then
		cp -R "$package/testdata" "$bundle/tests/$name/"
		rm -rf "$bundle/tests/$name/testdata/fuzz"
	fi
done
for package in $programs; do
	echo "$package" >&2
	go build -trimpath -ldflags="$flags" -o "$bundle/bin/" "./$package"
done
cp kernels/cuda/ptx/*.ptx.lzma "$bundle/ptx/"
cp examples/gpt/testdata/train.py "$bundle/"
cp "$(go env GOROOT)/src/testdata/Isaac.Newton-Opticks.txt" "$bundle/text.txt" # what the GPTs learn
cp "$traces"/*.trace.gz "$bundle/traces/"
printf '%s\n' "$commit" >"$bundle/COMMIT"
go version >"$bundle/GO"

# The programs share most of their packages: the dictionary is larger than all of them, and the filter knows calls.
filter=()
[[ $(go env GOARCH) != amd64 ]] || filter=(--x86)
rm -f "$out"/bundle.tar.*
tar -C "$bundle" --sort=name -c . | xz -T1 "${filter[@]}" --lzma2=preset=3,dict=384MiB >"$out/bundle.tar.xz"
cp benchmarks/gpu/run.sh "$out/run.sh"
chmod +x "$out/run.sh"

size=$(wc -c <"$out/bundle.tar.xz")
echo "$out/bundle.tar.xz: $size bytes, commit $commit" >&2
if ((size > limit)); then
	echo "pack.sh: the bundle is larger than $limit bytes: pack fewer traces or tests" >&2
	exit 1
fi
