#!/usr/bin/env bash
# Packs what run.sh needs on a machine with a GPU and nothing else: test binaries, programs, traces.
#
#   benchmarks/gpu/pack.sh [-x] [TRACES [FOLDER]]
#
# TRACES is a folder of *.trace.gz, benchmarks/internal/replay/testdata if it is not given. FOLDER gets bundle.tar.gz and a
# copy of run.sh; it is dist/gpu, which git ignores. -x packs with xz instead: smaller, slower, and the other machine needs
# xz. GOARCH=arm64 packs for that. Needs Go, tar and gzip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

limit=$((48 << 20)) # bytes of the bundle; more is an error, because some ways to a GPU are narrow
tests="device/cuda kernels/cuda memory tensor autograd amp"
programs="benchmarks/naive benchmarks/alloc benchmarks/replay benchmarks/gemm examples/mnist"

suffix=gz
if [[ ${1:-} == -x ]]; then
	suffix=xz
	shift
fi
traces=${1:-benchmarks/internal/replay/testdata}
out=${2:-dist/gpu}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bundle/bin" "$work/bundle/traces" "$out"

commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
if [[ -n $(git status --porcelain 2>/dev/null) ]]; then
	commit+=+changes
fi
export CGO_ENABLED=0 GOOS=linux GOFLAGS="${GOFLAGS:-} -buildvcs=false"
flags="-s -w -X github.com/cistern-ml/cistern/benchmarks/internal/machine.Commit=$commit"

for package in $tests; do
	name=${package//\//_}
	echo "tests of $package" >&2
	go test -c -trimpath -ldflags="$flags" -o "$work/bundle/bin/$name.test" "./$package"
	mkdir -p "$work/bundle/tests/$name" # the folder in which they run
	if [[ -d $package/testdata ]]; then
		cp -R "$package/testdata" "$work/bundle/tests/$name/"
		rm -rf "$work/bundle/tests/$name/testdata/fuzz"
	fi
done
for package in $programs; do
	echo "$package" >&2
	go build -trimpath -ldflags="$flags" -o "$work/bundle/bin/" "./$package"
done
cp "$traces"/*.trace.gz "$work/bundle/traces/"
if [[ -d $traces/expected ]]; then
	mkdir "$work/bundle/traces/expected"
	# Those whose trace is there. Three settings of each are enough to see that the allocator decides as it should.
	for trace in "$traces"/*.trace.gz; do
		name=$(basename "$trace" .trace.gz)
		for setting in default tight expandable_tight; do
			file=$traces/expected/$name.$setting.json.gz
			[[ ! -f $file ]] || cp "$file" "$work/bundle/traces/expected/"
		done
	done
fi
printf '%s\n' "$commit" >"$work/bundle/COMMIT"
go version >"$work/bundle/GO"

bundle=$out/bundle.tar.$suffix
rm -f "$out"/bundle.tar.*
if [[ $suffix == xz ]]; then
	tar -C "$work/bundle" -c . | xz -6 >"$bundle"
else
	tar -C "$work/bundle" -c . | gzip -9 >"$bundle"
fi
cp benchmarks/gpu/run.sh "$out/run.sh"
chmod +x "$out/run.sh"

size=$(wc -c <"$bundle")
echo "$bundle: $size bytes, commit $commit" >&2
if ((size > limit)); then
	echo "pack.sh: the bundle is larger than $limit bytes: pack with -x, or fewer traces" >&2
	exit 1
fi
