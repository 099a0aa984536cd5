package abi

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
)

// headerNames are the names that our constants have in the headers, by file. Constants that are nobody's but ours have none.
var headerNames = map[string]map[string]string{
	"../driver/structs.go": {
		"AllocationPinned": "CU_MEM_ALLOCATION_TYPE_PINNED", "LocationDevice": "CU_MEM_LOCATION_TYPE_DEVICE",
		"AccessReadWrite": "CU_MEM_ACCESS_FLAGS_PROT_READWRITE", "StreamNonBlocking": "CU_STREAM_NON_BLOCKING",
		"EventDisableTiming": "CU_EVENT_DISABLE_TIMING", "HostAllocPortable": "CU_MEMHOSTALLOC_PORTABLE",
		"HostRegisterPortable": "CU_MEMHOSTREGISTER_PORTABLE", "CaptureRelaxed": "CU_STREAM_CAPTURE_MODE_RELAXED",
		"GraphAutoFree":      "CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH",
		"GranularityMinimum": "CU_MEM_ALLOC_GRANULARITY_MINIMUM", "PoolReleaseThreshold": "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",
		"PoolReservedCurrent": "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT", "PoolReservedHigh": "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH",
		"PoolUsedCurrent": "CU_MEMPOOL_ATTR_USED_MEM_CURRENT", "PoolUsedHigh": "CU_MEMPOOL_ATTR_USED_MEM_HIGH",
	},
	"../../properties.go": {
		"MaxThreadsPerBlock":      "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
		"MaxSharedMemoryPerBlock": "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK",
		"WarpSize":                "CU_DEVICE_ATTRIBUTE_WARP_SIZE", "ClockRate": "CU_DEVICE_ATTRIBUTE_CLOCK_RATE",
		"ProcessorCount":         "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
		"MemoryClockRate":        "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE",
		"MemoryBusWidth":         "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH",
		"L2CacheSize":            "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE",
		"MaxThreadsPerProcessor": "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR",
		"ComputeCapabilityMajor": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
		"ComputeCapabilityMinor": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
		"MaxSharedMemoryOptIn":   "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
		"VirtualMemorySupported": "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
		"MemoryPoolsSupported":   "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED",
		"alignment":              "", "maxName": "",
	},
	"../../kernel.go": {
		"jitErrorLog": "CU_JIT_ERROR_LOG_BUFFER", "jitErrorLogSize": "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES", "jitLog": "",
		"FuncMaxThreads":  "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
		"FuncSharedBytes": "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES", "FuncLocalBytes": "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES",
		"FuncRegisters": "CU_FUNC_ATTRIBUTE_NUM_REGS",
		"funcMaxShared": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
	},
	"../cublas/status.go": {
		"Success": "CUBLAS_STATUS_SUCCESS", "NotInitialized": "CUBLAS_STATUS_NOT_INITIALIZED",
		"AllocFailed": "CUBLAS_STATUS_ALLOC_FAILED", "InvalidValue": "CUBLAS_STATUS_INVALID_VALUE",
		"ArchMismatch": "CUBLAS_STATUS_ARCH_MISMATCH", "MappingError": "CUBLAS_STATUS_MAPPING_ERROR",
		"ExecutionFailed": "CUBLAS_STATUS_EXECUTION_FAILED", "InternalError": "CUBLAS_STATUS_INTERNAL_ERROR",
		"NotSupported": "CUBLAS_STATUS_NOT_SUPPORTED", "LicenseError": "CUBLAS_STATUS_LICENSE_ERROR",
	},
	"../cublas/symbols.go": {
		"OpN": "CUBLAS_OP_N", "OpT": "CUBLAS_OP_T", "R32F": "CUDA_R_32F", "R64F": "CUDA_R_64F", "R16F": "CUDA_R_16F",
		"R16BF": "CUDA_R_16BF", "Compute32F": "CUBLAS_COMPUTE_32F", "Compute64F": "CUBLAS_COMPUTE_64F",
		"Compute32FFastTF32": "CUBLAS_COMPUTE_32F_FAST_TF32", "MathDefault": "CUBLAS_DEFAULT_MATH",
		"MathDisallowReducedReduction": "CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION",
		"DescTransA":                   "CUBLASLT_MATMUL_DESC_TRANSA", "DescTransB": "CUBLASLT_MATMUL_DESC_TRANSB",
		"DescEpilogue": "CUBLASLT_MATMUL_DESC_EPILOGUE", "DescBiasPointer": "CUBLASLT_MATMUL_DESC_BIAS_POINTER",
		"DescAuxPointer": "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER", "DescAuxLD": "CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD",
		"EpilogueDefault": "CUBLASLT_EPILOGUE_DEFAULT", "EpilogueReLU": "CUBLASLT_EPILOGUE_RELU",
		"EpilogueBias": "CUBLASLT_EPILOGUE_BIAS", "EpilogueGELU": "CUBLASLT_EPILOGUE_GELU",
		"EpilogueGELUAux": "CUBLASLT_EPILOGUE_GELU_AUX", "EpilogueSumsOfA": "CUBLASLT_EPILOGUE_BGRADA", "EpilogueSumsOfB": "CUBLASLT_EPILOGUE_BGRADB",
		"PrefMaxWorkspace": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES", "PrefReductionMask": "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK",
		"PrefAlignmentA": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES", "ReductionNotOutput": "CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE",
	},
}

// Each constant of these files has the header's value; one that the list above does not know fails too.
func TestConstants_HaveTheHeadersValues(t *testing.T) {
	f := facts(t)
	for file, names := range headerNames {
		ours := constants(t, file)
		for name, value := range ours {
			header, known := names[name]
			if !known && isFunc(t, file, name) {
				continue
			}
			require.True(t, known, "%s: which constant of a header is %s?", file, name)
			if header == "" {
				continue
			}
			want, ok := f.Values[header]
			require.True(t, ok, "there is no fact about %s: run generate.sh", header)
			require.Equal(t, want, value, "%s: %s, %s", file, name, header)
		}
		for name := range names {
			require.Contains(t, ours, name, file)
		}
	}
	for header, value := range map[string]int64{
		"CUBLASLT_EPILOGUE_RELU_BIAS":                cublas.EpilogueReLU | cublas.EpilogueBias,
		"CUBLASLT_EPILOGUE_GELU_BIAS":                cublas.EpilogueGELU | cublas.EpilogueBias,
		"CUBLASLT_EPILOGUE_GELU_AUX_BIAS":            cublas.EpilogueGELUAux | cublas.EpilogueBias,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES": cublas.PrefAlignmentA + 1,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES": cublas.PrefAlignmentA + 2,
		"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES": cublas.PrefAlignmentA + 3,
	} {
		require.Equal(t, f.Values[header], value, header)
	}
	require.EqualValues(t, -1, f.Values["CUBLAS_GEMM_DEFAULT"])
	require.EqualValues(t, uint32(1<<32-1), cublas.GemmDefault)
}

// isFunc reports whether a constant is the number of a function, in the order of our table, or of the table itself.
func isFunc(t *testing.T, file, name string) bool {
	t.Helper()
	if file != "../cublas/symbols.go" {
		return false
	}
	return symbols(t, file)[name] != "" || name == "numFuncs" || name == "lastRequired" || name == "GemmDefault"
}

// newResults are those that later versions, up to CUDA 13, added to what the facts have.
var newResults = map[driver.Result]string{
	226: "CUDA_ERROR_CONTAINED", 721: "CUDA_ERROR_TENSOR_MEMORY_LEAK", 36: "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
	916: "CUDA_ERROR_KEY_ROTATION", 917: "CUDA_ERROR_STREAM_DETACHED",
}

// The names of results are those of the header, all of them.
func TestResults_HaveTheHeadersNames(t *testing.T) {
	f := facts(t)
	byValue := map[driver.Result]string{}
	for name, value := range f.Values {
		if len(name) > 11 && name[:11] == "CUDA_ERROR_" || name == "CUDA_SUCCESS" {
			byValue[driver.Result(value)] = name
		}
	}
	require.Greater(t, len(byValue), 90)
	for r := range driver.Result(1000) {
		name := byValue[r]
		if name == "" {
			name = newResults[r]
		}
		if name == "" {
			name = "CUDA_ERROR"
		}
		require.Regexp(t, "^"+name+` \(`, r.String())
	}
}

// Structures that the libraries read and write have their sizes and offsets.
func TestStructures_LieAsInTheHeaders(t *testing.T) {
	f := facts(t)
	for _, c := range []struct {
		header string
		value  any
		fields map[string]string
	}{
		{"CUmemAllocationProp", driver.AllocationProp{}, map[string]string{
			"Type": "type", "HandleTypes": "requestedHandleTypes", "LocationType": "location", "Win32Meta": "win32HandleMetaData",
			"Flags": "allocFlags"}},
		{"CUmemAccessDesc", driver.AccessDesc{}, map[string]string{"LocationType": "location", "Flags": "flags"}},
		{"cublasLtMatmulHeuristicResult_t", cublas.HeuristicResult{}, map[string]string{
			"Algo": "algo", "Workspace": "workspaceSize", "State": "state"}},
	} {
		ours := reflect.TypeOf(c.value)
		require.EqualValues(t, f.Structs[c.header], ours.Size(), c.header)
		for field, header := range c.fields {
			own, ok := ours.FieldByName(field)
			require.True(t, ok, field)
			want, ok := f.Fields[c.header+"."+header]
			require.True(t, ok, header)
			require.EqualValues(t, want.Offset, own.Offset, "%s.%s", c.header, header)
		}
	}
	require.Equal(t, 4, f.Fields["CUmemLocation.id"].Offset)
	require.Equal(t, 8, f.Structs["CUmemLocation"])
	require.Equal(t, 16, f.Structs["CUuuid"])
	require.Equal(t, 64, f.Structs["cublasLtMatmulAlgo_t"])
}
