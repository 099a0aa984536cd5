package autograd_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
	"github.com/cistern-ml/cistern/tensor"
)

// The operations that are made of others: they are none of autograd.Operations, so that the walks over those do not meet them.

// composedFunctions compute the cases of composedFiles.
var composedFunctions = map[string]func(v vars) variable{}

// composedCases are for finite differences.
var composedCases []gradientCase

func composed(functions map[string]func(v vars) variable, cases ...gradientCase) {
	maps.Copy(composedFunctions, functions)
	composedCases = append(composedCases, cases...)
}

// composedFiles are in testdata, each with the script that made it.
var composedFiles = []string{"composed.json", "losses.json", "distances.json", "functions.json", "reductions.json", "ctc.json", "sampling.json", "volumes.json", "common.json"}

func TestComposedOperations_GiveWhatPyTorchGives(t *testing.T) { checkComposed(t, onHost) }

func checkComposed(t *testing.T, rigOf func(*testing.T) *rig) {
	for _, file := range composedFiles {
		checkFile(t, file, rigOf, composedFunctions, func(out variable) variable {
			n := float64(out.Len())
			return out.Mul(out.Graph().Linspace(0.5, n/2, int(n), tensor.Float64).Reshape(out.Shape()...))
		})
	}
}

func TestComposedOperations_HaveGradientsThatAgreeWithFiniteDifferences(t *testing.T) {
	for _, c := range composedCases {
		t.Run(strings.TrimSpace(c.op+" "+c.note), func(t *testing.T) {
			r := onHost(t)
			options := func() []autograd.Option {
				return []autograd.Option{autograd.WithAllocator(r.alloc), autograd.WithGenerator(tensor.NewGenerator(7))}
			}
			require.NoError(t, gradcheck.Check(r.dev, c.f, c.make(r), gradcheck.Graph(options)))
			require.NoError(t, gradcheck.CheckGradGrad(r.dev, c.f, c.make(r), gradcheck.Graph(options)), "second derivative")
		})
	}
}

func TestComposedOperations_RefuseShapesAndTypesThatDoNotFit_AndKeepNothing(t *testing.T) {
	r, refused := onSim(t), 0
	for _, c := range composedCases {
		specs := c.specs(t)
		for i := range specs {
			for _, shape := range oddShapes {
				in := slices.Clone(specs)
				in[i].Shape = shape
				refused += c.refuses(r, in)
			}
			for _, dt := range []tensor.DType{tensor.Int64, tensor.Bool, tensor.Float16} {
				in := slices.Clone(specs)
				in[i].DType = dt
				refused += c.refuses(r, in)
			}
		}
	}
	require.Greater(t, refused, 100)
}

// refuses uses a case; what it says must name an operation and the line. It returns how often that was.
func (c gradientCase) refuses(r *rig, in []autograd.Operand) int {
	err := c.use(r, in)
	require.Zero(r.t, r.allocated(), "%s %s of %v", c.op, c.note, in)
	if err == nil {
		return 0
	}
	var op *autograd.OpError
	require.True(r.t, errors.As(err, &op), "%s %s of %v: %v", c.op, c.note, in, err)
	require.True(r.t, op.Site.Known(), "%s %s of %v: %v", c.op, c.note, in, err)
	return 1
}
