package tensor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// refusal is the kind of an error: that of the typed error that the operation must return.
type refusal string

func kindOf(err error) refusal {
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	var value *tensor.ValueError
	switch {
	case errors.As(err, &shape):
		return "shape"
	case errors.As(err, &dtype):
		return "dtype"
	case errors.As(err, &value):
		return "value"
	}
	return refusal(fmt.Sprintf("%v", err))
}

// refused is a use that an operation must refuse, and with which error.
type refused = struct {
	sample
	want refusal
}

// refusals are those of all operations.
var refusals []refused

// clonesOf is how many tensors the test makes for an operation: it runs those in place on a clone, and gradients of outputs on an
// output.
func clonesOf(op string) int64 {
	switch name := operationOf(op); {
	case op == "BatchMoments running":
		return 2
	case strings.HasSuffix(name, "InPlace"), strings.HasSuffix(name, "Step"), strings.HasPrefix(name, "Amp"):
		return 1
	case name == "CopyFrom", name == "ClipGradNorm", name == "ClipGradValue", name == "AttentionGradInto", name == "LayerNormGradAdd":
		return 1
	case helped[op] && strings.HasSuffix(op, "Grad"):
		return 1
	}
	return 0
}

func TestOperations_RefuseWhatTheyCannotDo(t *testing.T) {
	for _, c := range refusals {
		b, _ := onSim(t)
		in := c.inputs(t, b.Exec)
		before := b.alloc.Stats().Allocation.All.Allocated
		_, err := c.run(in)
		require.Error(t, err, "%v", c.sample)
		require.Equal(t, c.want, kindOf(err), "%v: %v", c.sample, err)
		require.Contains(t, err.Error(), "tensor: "+operationOf(c.op)+": ", "%v", c.sample)
		inOrder(t, c, in, err)
		clones := clonesOf(c.op)
		if in[0].Len() == 0 { // which takes no memory
			clones = 0
		}
		require.Equal(t, before+clones, b.alloc.Stats().Allocation.All.Allocated, "%v: a refusal comes before any allocation", c.sample)
	}
}

// inOrder checks that the types of an error are those of operands in the order of the arguments.
func inOrder(t *testing.T, c refused, in tensors, err error) {
	t.Helper()
	var types *tensor.DTypeError
	if !errors.As(err, &types) {
		return
	}
	rest := types.DTypes
	for _, x := range in {
		if len(rest) > 0 && x.DType() == rest[0] {
			rest = rest[1:]
		}
	}
	require.Empty(t, rest, "%v: %v", c.sample, err)
}
