package tensor_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/tensor"
)

// number is a float64 that JSON may hold as "nan", "inf" or "-inf".
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	text := string(b)
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	v, err := strconv.ParseFloat(text, 64)
	*n = number(v)
	return err
}

// packed is a tensor in a golden file.
type packed struct {
	DType string
	Shape []int
	Data  []number
}

// program is a sequence of operations and what PyTorch makes of it; no Want is an error.
type program struct {
	Name    string
	Inputs  []packed
	Steps   [][]any
	Want    *packed
	Strides []int
}

func readGolden(t testing.TB, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

func typeNamed(t testing.TB, name string) tensor.DType {
	t.Helper()
	for _, d := range dtype.All() {
		if d.String() == name {
			return d
		}
	}
	require.Fail(t, "no such type", name)
	return dtype.Invalid
}

// tensor makes the packed tensor under e.
func (p packed) tensor(t testing.TB, e tensor.Exec) *tensor.Tensor {
	t.Helper()
	data := make([]float64, len(p.Data))
	for i, v := range p.Data {
		data[i] = float64(v)
	}
	wide := must(t)(tensor.FromSlice(e, data, append([]int{}, p.Shape...)...))
	return must(t)(wide.To(typeNamed(t, p.DType)))
}

// tolerance is how far a result may be from PyTorch's, relative to the greater of 1 and its size: a few units in the last
// place, because sums may be formed in another order.
var tolerance = map[tensor.DType]float64{
	tensor.Float32: 1e-5, tensor.Float64: 1e-12, tensor.Float16: 2e-3, tensor.BFloat16: 1.6e-2,
}

func requireClose(t testing.TB, want, got []float64, tol float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		switch g := got[i]; {
		case math.IsNaN(w) || math.IsInf(w, 0) || tol == 0:
			if !(w == g || math.IsNaN(w) && math.IsNaN(g)) {
				require.Failf(t, "values differ", "element %d: want %v, got %v", i, w, g)
			}
		default:
			require.InDeltaf(t, w, g, tol*math.Max(1, math.Abs(w)), "element %d", i)
		}
	}
}

func (p packed) requireEqual(t testing.TB, got *tensor.Tensor) {
	t.Helper()
	dt := typeNamed(t, p.DType)
	require.Equal(t, dt, got.DType())
	require.Equal(t, tensor.Shape(p.Shape).String(), got.Shape().String())
	want := make([]float64, len(p.Data))
	for i, v := range p.Data {
		want[i] = float64(v)
	}
	requireClose(t, want, values(t, got), tolerance[dt])
}

// args are the arguments of a step.
type args []any

func (a args) int(i int) int       { return int(a[i].(float64)) }
func (a args) float(i int) float64 { return a[i].(float64) }
func (a args) bool(i int) bool {
	if b, ok := a[i].(bool); ok {
		return b
	}
	return a[i].(float64) != 0
}

func (a args) ints(from int) []int {
	v := []int{}
	for i := from; i < len(a); i++ {
		v = append(v, a.int(i))
	}
	return v
}

// ofOutputs are gradients that want the output of a function as what was saved, where the golden files have its input.
var ofOutputs = map[string]operation{
	"ReLUGrad":    gradOfOutput((*tensor.Tensor).ReLU, gradients.ReLU),
	"TanhGrad":    gradOfOutput((*tensor.Tensor).Tanh, gradients.Tanh),
	"SigmoidGrad": gradOfOutput((*tensor.Tensor).Sigmoid, gradients.Sigmoid),
}

// runProgram runs the steps; what each makes is released when the next has run.
func runProgram(p program, inputs []*tensor.Tensor) (*tensor.Tensor, error) {
	in := append([]*tensor.Tensor{}, inputs...)
	in[0] = in[0].Retain()
	for _, s := range p.Steps {
		f := operations[s[0].(string)]
		if of := ofOutputs[s[0].(string)]; of != nil {
			f = of
		}
		next, err := f(in, s[1:])
		in[0].Release()
		if err != nil {
			return nil, err
		}
		in[0] = next
	}
	return in[0], nil
}

func TestPrograms_GiveWhatPyTorchGives(t *testing.T) { checkPrograms(t, onHost(t)) }

func checkPrograms(t *testing.T, b bench) {
	checkProgramFile(t, b, "programs.json")
	checkProgramFile(t, b, "operations.json")
}

func checkProgramFile(t *testing.T, b bench, file string) {
	var programs []program
	readGolden(t, file, &programs)
	for _, p := range programs {
		t.Run(p.Name, func(t *testing.T) {
			require.Zero(t, b.allocated(), "the program before kept memory")
			var inputs []*tensor.Tensor
			for _, in := range p.Inputs {
				inputs = append(inputs, in.tensor(t, b.Exec))
			}
			before := b.allocated()
			got, err := runProgram(p, inputs)
			if p.Want == nil {
				require.Error(t, err, "PyTorch refuses this: %v", p.Steps)
				require.Equal(t, before, b.allocated(), "the failed operation kept memory")
				return
			}
			require.NoError(t, err, "%v", p.Steps)
			defer got.Release()
			p.Want.requireEqual(t, got)
			if isView[p.Steps[0][0].(string)] {
				require.Equal(t, tensor.Shape(p.Strides).String(), tensor.Shape(got.Strides()).String(), "strides")
			}
		})
	}
}

func TestPromote_GivesPyTorchsTypes(t *testing.T) {
	var golden struct {
		Pairs  [][3]string
		Binary [][4]string
		Scalar [][4]any
	}
	readGolden(t, "promote.json", &golden)
	require.Len(t, golden.Pairs, 64)
	for _, p := range golden.Pairs {
		require.Equal(t, p[2], tensor.Promote(typeNamed(t, p[0]), typeNamed(t, p[1])).String(), "%v", p)
	}
	b := onHost(t)
	check := func(want string, got *tensor.Tensor, err error, what any) {
		t.Helper()
		if want == "" {
			var wrong *tensor.DTypeError
			require.ErrorAs(t, err, &wrong, "%v", what)
			return
		}
		require.NoError(t, err, "%v", what)
		require.Equal(t, want, got.DType().String(), "%v", what)
		got.Release()
	}
	for _, p := range golden.Binary {
		x := must(t)(tensor.Ones(b.Exec, typeNamed(t, p[1]), 3))
		y := must(t)(tensor.Ones(b.Exec, typeNamed(t, p[2]), 3))
		got, err := operations[p[0]]([]*tensor.Tensor{x, y}, nil)
		check(p[3], got, err, p)
	}
	for _, p := range golden.Scalar {
		x := must(t)(tensor.Ones(b.Exec, typeNamed(t, p[1].(string)), 3))
		got, err := operations[p[0].(string)]([]*tensor.Tensor{x}, p[2:3])
		check(p[3].(string), got, err, p)
	}
}

func gradOfOutput(
	f func(*tensor.Tensor) (*tensor.Tensor, error), g func(t, u *tensor.Tensor) (*tensor.Tensor, error),
) operation {
	return func(in tensors, _ args) (*tensor.Tensor, error) {
		out, err := f(in[1])
		if err != nil {
			return nil, err
		}
		defer out.Release()
		return g(in[0], out)
	}
}
