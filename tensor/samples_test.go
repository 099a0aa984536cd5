package tensor_test

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// sample is a legal use of an operation: the inputs as type and shape, and the arguments.
type sample struct {
	op   string
	in   string
	args args
}

// samples use each operation, and those that make temporaries with types, shapes and strides that need them: "~" is a
// transposed input.
var samples []sample

// inputs makes the inputs of a sample under e. The values are small and of both signs; those of integers are 0 and 1, which
// are legal as indices and classes.
func (s sample) inputs(t testing.TB, e tensor.Exec) tensors {
	t.Helper()
	var in tensors
	for spec := range strings.SplitSeq(strings.ReplaceAll(s.in, "] ", "]|"), "|") {
		text, transposed := strings.CutPrefix(spec, "~")
		name, rest, _ := strings.Cut(strings.TrimSuffix(text, "]"), "[")
		shape := []int{}
		for _, d := range strings.Fields(rest) {
			n, err := strconv.Atoi(d)
			require.NoError(t, err)
			shape = append(shape, n)
		}
		data := make([]float64, tensor.Shape(shape).Len())
		for i := range data {
			data[i] = 2 * math.Sin(float64(3*i+len(in)))
			if dt := typeNamed(t, name); !dt.IsFloat() {
				data[i] = float64((i*i + len(in)) % 3 % 2)
			}
		}
		x := must(t)(must(t)(tensor.FromSlice(e, data, shape...)).To(typeNamed(t, name)))
		if transposed {
			x = must(t)(x.Transpose(0, 1))
		}
		in = append(in, x)
	}
	return in
}

func (s sample) run(in tensors) (*tensor.Tensor, error) { return operations[s.op](in, s.args) }

func (s sample) String() string { return fmt.Sprintf("%s(%s)%v", s.op, s.in, s.args) }

func TestOperations_AreAllSampled(t *testing.T) {
	sampled := map[string]bool{}
	for _, s := range samples {
		sampled[s.op] = true
	}
	for name := range operations {
		require.True(t, sampled[name], "%s has no sample", name)
	}
	handle := reflect.TypeFor[*tensor.Tensor]()
	failure := reflect.TypeFor[error]()
	notOperations := map[string]bool{"CopyToHost": true, "Item": true, "Float64s": true, "Synchronize": true, "AllClose": true, "Equal": true}
	for i := range handle.NumMethod() {
		m := handle.Method(i)
		last := m.Type.NumOut() - 1
		if last < 0 || m.Type.Out(last) != failure || notOperations[m.Name] {
			continue
		}
		require.Contains(t, operations, m.Name, "a method that can fail is not among the tested operations")
	}
}
