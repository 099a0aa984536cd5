#!/usr/bin/env bash
# Writes facts.txt: what NVIDIA's headers say of each function, number and structure that this module uses, as numbers only.
#
#   device/cuda/internal/abi/generate.sh FOLDER...
#
# Each folder has the headers of one toolkit: cuda.h, cublas_api.h, cublasLt.h, library_types.h and nvml.h, as Debian's packages
# nvidia-cuda-dev and libnvidia-ml-dev (non-free) have them. Two toolkits that do not agree on something are an error. Needs g++.
# The names are taken from the sources: from quoted names and exported functions, and from constants named in tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."
out=device/cuda/internal/abi/facts.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go_sources="device/cuda/*.go device/cuda/internal/*/*.go"
emulator=internal/fakecuda/src
{
	grep -hoE '"(cu[A-Z]|cublas|nvml)[A-Za-z0-9_]+"' $go_sources | tr -d '"'
	grep -hoE '^EXPORT [A-Za-z]+ [A-Za-z0-9_]+\(' $emulator/*.cc | sed -E 's/.* ([A-Za-z0-9_]+)\(/\1/'
} | sort -u | grep -v -e '^fakecuda' -e '_t$' >"$work/functions"
grep -hoE '\b(CU|CUDA|CUBLAS|CUBLASLT|NVML)_[A-Z0-9_]+\b' $go_sources $emulator/*.h $emulator/*.cc | sort -u >"$work/values"

# declared lists the words of some headers that are not in comments.
declared() {
	local header
	for header in "$@"; do
		g++ -fpreprocessed -dD -E -P -x c++ "$header" 2>/dev/null
	done | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u
}

# program prints a program that prints the facts. Names that the headers do not have are left out.
program() {
	local folder=$1 name members
	declared "$folder"/{cuda,cublas_api,cublasLt,library_types,nvml}.h >"$work/declared"
	# The header of cuBLAS gives some functions a second form for C++, so that their names alone say too little.
	# Its half types come with much that needs more headers.
	echo 'struct __half { short bits; };' >"$work/cuda_fp16.h"
	echo 'struct __nv_bfloat16 { short bits; };' >"$work/cuda_bf16.h"
	sed -E 's/^static inline cublasStatus_t cublasGemm/&Other/' "$folder/cublas_api.h" >"$work/cublas_api.h"
	cat <<-'END'
		#define __CUDA_API_VERSION_INTERNAL
		#include <cuda.h>
		#define CUBLASAPI
		#include <cublas_api.h>
		#include <cublasLt.h>
		#define NVML_NO_UNVERSIONED_FUNC_DEFS
		#include <nvml.h>
		#include <stdio.h>
		#include <type_traits>
		template <class T, class = void> struct width { static void print() { printf(" *"); } };
		template <class T> struct width<T, std::void_t<decltype(sizeof(T))>> { static void print() { printf(" *%zu", sizeof(T)); } };
		// Descriptors differ in size between toolkits, which is nobody's business: they are made by the library.
		#define OPAQUE(t) template <> struct width<t> { static void print() { printf(" *"); } };
		OPAQUE(cublasLtMatmulDescOpaque_t) OPAQUE(cublasLtMatrixLayoutOpaque_t) OPAQUE(cublasLtMatmulPreferenceOpaque_t)
		template <> struct width<void> { static void print() { printf(" *"); } };
		template <> struct width<const void> { static void print() { printf(" *"); } };
		template <class T> struct argument { static void print() { printf(" %zu", sizeof(T)); } };
		template <class T> struct argument<T*> {
			static void print() {
				if constexpr (std::is_function_v<T>) printf(" *"); else width<T>::print();
			}
		};
		template <class F> struct function;
		template <class R, class... A> struct function<R(A...)> {
			static void print(const char* name) {
				printf("function %s %zu", name, sizeof(R));
				(argument<A>::print(), ...);
				puts("");
			}
		};
		#define FUNCTION(f) function<decltype(f)>::print(#f);
		#define VALUE(v) printf("value %s %lld\n", #v, (long long)v);
		#define STRUCT(s) printf("struct %s %zu\n", #s, sizeof(s));
		#define FIELD(s, f) printf("field %s.%s %zu %zu\n", #s, #f, offsetof(s, f), sizeof(((s*)0)->f));
		int main() {
	END
	grep -xFf "$work/functions" "$work/declared" | sed -E 's/.*/FUNCTION(&)/'
	grep -vx CUDA_MEMCPY2D "$work/values" | grep -xFf - "$work/declared" | sed -E 's/.*/VALUE(&)/'
	while read -r name members; do
		grep -qx "$name" "$work/declared" || continue
		echo "STRUCT($name)"
		for member in $members; do echo "FIELD($name, $member)"; done
	done <<-'END'
		CUuuid bytes
		CUmemLocation type id
		CUmemAllocationProp type requestedHandleTypes location win32HandleMetaData allocFlags
		CUmemAccessDesc location flags
		CUmemPoolProps allocType handleTypes location win32SecurityAttributes
		CUDA_MEMCPY2D srcXInBytes srcY srcMemoryType srcHost srcDevice srcArray srcPitch dstXInBytes dstY dstMemoryType dstHost dstDevice dstArray dstPitch WidthInBytes Height
		CUlaunchConfig gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes hStream attrs numAttrs
		CUgraphExecUpdateResultInfo result errorNode errorFromNode
		cublasLtMatmulAlgo_t data
		cublasLtMatmulHeuristicResult_t algo workspaceSize state wavesCount reserved
		nvmlProcessInfo_v2_t pid usedGpuMemory gpuInstanceId computeInstanceId
	END
	echo "}"
}

for folder in "$@"; do
	program "$folder" >"$work/facts.cc"
	g++ -std=c++17 -w -fpermissive -I"$work" -I"$folder" -o "$work/facts" "$work/facts.cc"
	"$work/facts" >>"$work/all"
done
sort -u "$work/all" >"$work/sorted"
twice=$(awk '{print $1, $2}' "$work/sorted" | uniq -d)
if [[ -n $twice ]]; then
	echo "the toolkits do not agree on:" >&2
	grep -F "$twice" "$work/sorted" >&2
	exit 1
fi
{
	echo "# Code generated by generate.sh; DO NOT EDIT."
	echo "# function: bytes of the result, then of each argument; *n is the address of n bytes, * of something without a size"
	echo "# value: of a constant. struct: bytes. field: offset, bytes."
	cat "$work/sorted"
} >"$out"

# The emulator's part, as macros: what it exports, its numbers and structures.
{
	echo "// Code generated by device/cuda/internal/abi/generate.sh; DO NOT EDIT."
	while read -r kind name numbers; do
		case $kind in
		function) grep -qE "^EXPORT [A-Za-z]+ $name\\(" $emulator/*.cc && echo "FUNCTION($name, $(sed -E 's/\*[0-9]*/8/g; s/ /, /g' <<<"$numbers"))" ;;
		value) grep -qE "^[^\"/]*\\b$name( =|,)" $emulator/*.{h,cc} && echo "VALUE($name, $numbers)" ;;
		struct) grep -qE "^struct $name \\{" $emulator/*.{h,cc} && echo "STRUCT($name, $numbers)" ;;
		field) grep -qE "^struct ${name%.*} \\{" $emulator/*.{h,cc} && echo "FIELD(${name/./, }, ${numbers/ /, })" ;;
		esac || true
	done <"$work/sorted"
} >$emulator/abi.inc
