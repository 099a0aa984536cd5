package torchtest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notCompared are methods of variables that no program calls, with the reason.
var notCompared = map[string]string{
	"Alive": "no operation", "Backward": "the end of a program", "DType": "no operation", "Dim": "no operation", "Float64s": "no operation", "Grad": "no operation",
	"Graph": "no operation", "GradVariable": "no operation", "IsLeaf": "no operation", "Item": "no operation", "Keep": "lifetime", "Len": "no operation", "MemoryFormat": "no operation", "NDim": "no operation",
	"Parameter": "no operation", "RegisterHook": "Hook", "RegisterVariableHook": "Hook", "Release": "lifetime", "RequiresGrad": "no operation", "RetainGrad": "of the backward pass",
	"Shape": "no operation", "String": "no operation", "Take": "lifetime", "Tensor": "no operation", "Version": "no operation",
	"ZerosLike": "a constant", "OnesLike": "a constant", "FullLike": "a constant", "RandLike": "other random numbers", "RandNLike": "other random numbers",
	"Multinomial": "other random numbers", "SearchSorted": "tensor/testdata/selections.json", "Bucketize": "tensor/testdata/selections.json",
	"Nonzero": "tensor/testdata/selections.json", "Unique": "tensor/testdata/selections.json", "BinCount": "tensor/testdata/selections.json",
	"IsIn": "tensor/testdata/selections.json", "MaskedSelect": "autograd/testdata/composed.json", "IndexCopy": "autograd/testdata/composed.json",
	"IndexFill": "autograd/testdata/composed.json", "Index": "autograd/testdata/composed.json", "IndexPut": "autograd/testdata/composed.json",
	"ScatterReduce": "autograd/testdata/composed.json", "RotaryEmbedding": "autograd/testdata/operations.json",
	"GumbelSoftmax": "other random numbers",
	"ExpandAs":      "Expand", "BroadcastTensors": "Expand", "TensorSplit": "SplitSizes", "TensorSplitAt": "Narrow",
	"Histc": "autograd: TestHistc", "CTCLoss": "autograd/testdata/ctc.json", "GridSample": inSampling, "AffineGrid": inSampling,
	"UpsampleNearest1d": inSampling, "UpsampleNearest3d": inSampling, "UpsampleLinear1d": inSampling, "UpsampleBicubic2d": inSampling,
	"UpsampleTrilinear3d": inSampling, "Dropout": "other random numbers", "BatchNorm": "nn.BatchNorm1d", "LSTM": "nn.LSTM", "GRU": "nn.GRU",
	"SelfAttention": "nn.MultiheadAttention", "LayerNormFor": "LayerNorm", "RMSNormFor": "RMSNorm", "RReLU": "other random numbers", "MT": "Transpose",
}

// The files of cases that PyTorch computed.
const (
	inSampling = "autograd/testdata/sampling.json"
)

func TestGenerate_CallsEveryOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("8000 programs take seconds")
	}
	r := newRunner(t)
	called := map[string]bool{}
	for seed := range uint64(8000) {
		for _, s := range r.Generate(seed + 1).Steps {
			called[s.Op] = true
		}
	}
	want := slices.Collect(maps.Keys(functions))
	for i := range variableType.NumMethod() {
		want = append(want, variableType.Method(i).Name)
	}
	for _, name := range want {
		assert.True(t, called[name] || notCompared[name] != "", "no program calls %s: give it a maker and a line in testdata/torch.py, or say why not", name)
		assert.False(t, called[name] && notCompared[name] != "", "%s is called", name)
	}
}

func TestGenerate_MakesTheSameProgramOfASeed(t *testing.T) {
	r := newRunner(t)
	for seed := range uint64(20) {
		require.Equal(t, r.Generate(seed), r.Generate(seed))
	}
}

// Every operation that has a name in testdata/torch.py must still exist.
func TestScript_NamesOperationsThatExist(t *testing.T) {
	exists := func(name string) bool {
		_, ok := variableType.MethodByName(name)
		_, eager := arrayType.MethodByName(name)
		return ok || eager || functions[name] != nil || eagerFunctions[name] != nil
	}
	_, text, ok := strings.Cut(script, "\nEXACT = set(\"\"\"")
	require.True(t, ok)
	text, _, _ = strings.Cut(text, `"""`)
	names := strings.Fields(text)
	require.Greater(t, len(names), 50)
	for _, name := range names {
		require.True(t, exists(name), name)
	}
}

func TestShrink_CutsInputs(t *testing.T) {
	require.Equal(t, "1 2 4 5", cut("1 2 3 4 5 6", []int{2, 3}, 1))
	require.Equal(t, "1 2 3", cut("1 2 3 4 5 6", []int{2, 3}, 0))
	s := Step{Base: []int{2, 5}, Views: [][]any{{"slice", 1., 1., 4., 2.}, {"transpose", 0., 1.}}, Data: "1 2 3 4 5 6 7 8 9 10"}
	base, _, data := flat(&s)
	require.Equal(t, []int{2, 2}, base)
	require.Equal(t, "1 2 3 4", data)
}
