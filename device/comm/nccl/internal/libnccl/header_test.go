package libnccl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// HeaderVariable names the file nccl.h of some version, and LibraryTestVariable the library. .ci/run takes both from Debian's packages.
const (
	headerVariable  = "CISTERN_TEST_NCCL_HEADER"
	libraryVariable = "CISTERN_TEST_LIBNCCL"
)

// cudaHeaders is as much of CUDA's headers as nccl.h needs.
const cudaHeaders = `#include <stddef.h>
#define CUDART_VERSION 11000
#define __CUDA_BF16_TYPES_EXIST__
typedef struct CUstream_st *cudaStream_t;
`

// program is a C program that does not compile if a function has other arguments than this package gives it, and prints the header's numbers.
func program() string {
	var b strings.Builder
	b.WriteString(`#include <nccl.h>
#include <stdio.h>
#define F(name, ...) static ncclResult_t (*f_##name)(__VA_ARGS__) = name;
F(ncclGetVersion, int *)
F(ncclGetUniqueId, ncclUniqueId *)
F(ncclCommInitRankConfig, ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *)
F(ncclCommFinalize, ncclComm_t)
F(ncclCommDestroy, ncclComm_t)
F(ncclCommAbort, ncclComm_t)
F(ncclCommGetAsyncError, ncclComm_t, ncclResult_t *)
F(ncclAllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)
F(ncclReduceScatter, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)
F(ncclAllGather, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)
F(ncclBroadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
F(ncclSend, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
F(ncclRecv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)
F(ncclGroupStart, void)
F(ncclGroupEnd, void)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
F(ncclCommInitRankScalable, ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *)
#endif
static const char *(*f_string)(ncclResult_t) = ncclGetErrorString;
static const char *(*f_last)(ncclComm_t) = ncclGetLastError;
#define V(name) printf("%s %lld\n", #name, (long long)(name));
int main(void) {
`)
	for _, line := range expectation() {
		name, _, _ := cutLast(line)
		fmt.Fprintf(&b, "\tV(%s)\n", name)
	}
	b.WriteString("\treturn 0;\n}\n")
	return b.String()
}

func cutLast(line string) (before, after string, found bool) {
	i := strings.LastIndexByte(line, ' ')
	return line[:i], line[i+1:], i >= 0
}

// expectation is what this package says, in the words of the program.
func expectation() (lines []string) {
	add := func(name string, value int64) { lines = append(lines, fmt.Sprintf("%s %d", name, value)) }
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"ncclInt8", Int8}, {"ncclUint8", Uint8}, {"ncclInt32", Int32}, {"ncclInt64", Int64}, {"ncclFloat16", Float16}, {"ncclFloat32", Float32},
		{"ncclFloat64", Float64}, {"ncclBfloat16", BFloat16}, {"ncclSum", Sum}, {"ncclMax", Max}, {"ncclMin", Min}, {"ncclAvg", Avg},
		{"sizeof(ncclUniqueId)", UniqueIDBytes}, {"sizeof(ncclResult_t)", 4}, {"sizeof(ncclDataType_t)", 4}, {"sizeof(ncclRedOp_t)", 4},
		{"NCCL_CONFIG_UNDEF_INT", undefined}, {"(((ncclConfig_t)NCCL_CONFIG_INITIALIZER).magic)", configMagic},
		{"NCCL_VERSION(2, 14, 0)", MinVersion}, {"NCCL_VERSION(2, 17, 0)", longerConfig}, {"NCCL_VERSION(2, 23, 0)", scalableInit},
	} {
		add(v.name, v.value)
	}
	for r, name := range resultNames {
		add(name, int64(r))
	}
	c := Config{}
	for name, at := range map[string]uintptr{"size": unsafe.Offsetof(c.Size), "magic": unsafe.Offsetof(c.Magic), "version": unsafe.Offsetof(c.Version),
		"blocking": unsafe.Offsetof(c.Blocking), "cgaClusterSize": unsafe.Offsetof(c.CGAClusterSize), "minCTAs": unsafe.Offsetof(c.MinCTAs),
		"maxCTAs": unsafe.Offsetof(c.MaxCTAs), "netName": unsafe.Offsetof(c.NetName)} {
		add("offsetof(ncclConfig_t, "+name+")", int64(at))
	}
	return lines
}

func TestConstants_AreThoseOfTheHeader(t *testing.T) {
	header := os.Getenv(headerVariable)
	if header == "" {
		t.Skipf("SKIPPED: %s names no nccl.h (Debian: libnccl-dev)", headerVariable)
	}
	folder := t.TempDir()
	for _, name := range []string{"cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#pragma once\n"+map[bool]string{true: cudaHeaders}[name == "cuda_runtime.h"]), 0o600))
	}
	source, binary := filepath.Join(folder, "constants.c"), filepath.Join(folder, "constants")
	require.NoError(t, os.WriteFile(source, []byte(program()), 0o600))
	// The functions are not linked: only their types matter.
	out, err := exec.Command("gcc", "-Werror=incompatible-pointer-types", "-I", folder, "-I", filepath.Dir(header), "-o", binary, source,
		"-O1", "-Wl,--unresolved-symbols=ignore-all").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(binary).Output()
	require.NoError(t, err)
	require.ElementsMatch(t, expectation(), strings.Split(strings.TrimSpace(string(out)), "\n"))
}

// A real library without a GPU: it loads, has all functions, and tells its version.
func TestOpen_TheRealLibrary(t *testing.T) {
	file := os.Getenv(libraryVariable)
	if file == "" {
		t.Skipf("SKIPPED: %s names no libnccl.so.2 (Debian: libnccl2)", libraryVariable)
	}
	l, err := Open(file)
	require.NoError(t, err)
	require.GreaterOrEqual(t, l.Version, MinVersion)
	require.Contains(t, file, VersionString(l.Version))
	for f := range numFuncs {
		require.True(t, l.Has(f) || f == CommInitRankScalable && l.Version < scalableInit, f)
	}
	require.Contains(t, l.Explain(Usage, 0), "ncclInvalidUsage (5): invalid usage")
	id, r := l.UniqueID()
	require.True(t, r == Success || r == System, "%v", r) // a machine may have no network
	if r == Success {
		require.NotZero(t, id)
	}
}

func TestOpen_SaysWhatIsWrong(t *testing.T) {
	_, err := Open("/nonexistent/libnccl.so.2")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "/nonexistent/libnccl.so.2")
	_, err = Open("libc.so.6")
	require.ErrorContains(t, err, "libc.so.6 has no function ncclGetVersion")
}

func TestVersionString(t *testing.T) {
	require.Equal(t, "2.22.3", VersionString(22203))
	require.Equal(t, "2.7.8", VersionString(2708))
}

func TestNonBlocking_FitsTheVersion(t *testing.T) {
	require.EqualValues(t, unsafe.Sizeof(Config{}), NonBlocking(2_17_01).Size)
	require.EqualValues(t, 24, NonBlocking(2_16_05).Size)
	require.Zero(t, NonBlocking(2_16_05).Blocking)
}
