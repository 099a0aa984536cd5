package cublas

import "strconv"

// Func is a function of one of the libraries. Its name is that of the exported symbol.
type Func uint8

// The functions. Those up to lastRequired are of cuBLAS; without one of them the library is not used. The others are of
// cuBLASLt and make up one feature: see Library.Lt.
const (
	Create Func = iota
	Destroy
	GetVersion
	SetStream
	SetWorkspace
	SetMathMode
	GemmEx
	GemmStridedBatchedEx

	LtCreate
	LtDestroy
	LtMatmul
	LtMatmulAlgoGetHeuristic
	LtMatmulDescCreate
	LtMatmulDescDestroy
	LtMatmulDescSetAttribute
	LtMatrixLayoutCreate
	LtMatrixLayoutDestroy
	LtMatmulPreferenceCreate
	LtMatmulPreferenceDestroy
	LtMatmulPreferenceSetAttribute

	numFuncs
)

const lastRequired = GemmStridedBatchedEx

// symbols are the exported names. Functions that exist in two forms have the suffix of the one with a handle.
var symbols = [numFuncs]string{
	Create: "cublasCreate_v2", Destroy: "cublasDestroy_v2", GetVersion: "cublasGetVersion_v2", SetStream: "cublasSetStream_v2",
	SetWorkspace: "cublasSetWorkspace_v2", SetMathMode: "cublasSetMathMode", GemmEx: "cublasGemmEx",
	GemmStridedBatchedEx: "cublasGemmStridedBatchedEx",

	LtCreate: "cublasLtCreate", LtDestroy: "cublasLtDestroy", LtMatmul: "cublasLtMatmul",
	LtMatmulAlgoGetHeuristic: "cublasLtMatmulAlgoGetHeuristic", LtMatmulDescCreate: "cublasLtMatmulDescCreate",
	LtMatmulDescDestroy: "cublasLtMatmulDescDestroy", LtMatmulDescSetAttribute: "cublasLtMatmulDescSetAttribute",
	LtMatrixLayoutCreate: "cublasLtMatrixLayoutCreate", LtMatrixLayoutDestroy: "cublasLtMatrixLayoutDestroy",
	LtMatmulPreferenceCreate: "cublasLtMatmulPreferenceCreate", LtMatmulPreferenceDestroy: "cublasLtMatmulPreferenceDestroy",
	LtMatmulPreferenceSetAttribute: "cublasLtMatmulPreferenceSetAttribute",
}

// String returns the exported name, as in "cublasGemmEx".
func (f Func) String() string {
	if f < numFuncs {
		return symbols[f]
	}
	return "Func(" + strconv.Itoa(int(f)) + ")"
}

// cublasOperation_t: whether an operand is transposed.
const (
	OpN = 0
	OpT = 1
)

// cudaDataType.
const (
	R32F  = 0
	R64F  = 1
	R16F  = 2
	R16BF = 14
)

// cublasComputeType_t.
const (
	Compute32F         = 68
	Compute64F         = 70
	Compute32FFastTF32 = 77
)

// cublasMath_t. Without the flag, sums of half types that were computed in parts may be added up in half precision.
const (
	MathDefault                  = 0
	MathDisallowReducedReduction = 16
)

// GemmDefault is CUBLAS_GEMM_DEFAULT of cublasGemmAlgo_t: the library chooses.
const GemmDefault = ^uintptr(0) >> 32 // -1 as 32 bits

// cublasLtMatmulDescAttributes_t, with the size of each value.
const (
	DescTransA      = 3 // int32
	DescTransB      = 4 // int32
	DescEpilogue    = 7 // uint32
	DescBiasPointer = 8 // pointer
	DescAuxPointer  = 11
	DescAuxLD       = 12 // int64
)

// cublasLtEpilogue_t. They combine: bias and ReLU is 6.
const (
	EpilogueDefault = 1
	EpilogueReLU    = 2
	EpilogueBias    = 4
	EpilogueGELU    = 32 // the approximation with tanh
	EpilogueGELUAux = EpilogueGELU | 128
	EpilogueSumsOfA = 256 // BGRADA: the sums of op(A) along k, the gradient of a bias
	EpilogueSumsOfB = 512 // BGRADB
)

// cublasLtMatmulPreferenceAttributes_t.
const (
	PrefMaxWorkspace  = 1 // uint64, bytes
	PrefReductionMask = 3 // uint32
	PrefAlignmentA    = 5 // uint32, bytes; B, C and D follow
)

// ReductionNotOutput are the ways of cublasLtReductionScheme_t to add up sums that were computed in parts, but for the one that
// rounds the parts to the type of the output: none, in place is of the output's type too, in the type of computation.
const ReductionNotOutput = 2

// HeuristicResult is cublasLtMatmulHeuristicResult_t: 8 words of the algorithm, the bytes of workspace, status and waves in one
// word, and two words in reserve.
type HeuristicResult struct {
	Algo      [8]uint64
	Workspace uint64
	State     uint64 // cublasStatus_t in the lower half
	_         [2]uint64
}
