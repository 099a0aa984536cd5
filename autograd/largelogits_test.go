package autograd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// largeLogits is a case of testdata/largelogits.json: one row, of class 1.
type largeLogits struct {
	DType      string
	Logits     []float64
	Smoothing  float64
	Loss       float64
	Grad       []float64
	LogSoftmax []float64 `json:"log_softmax"`
}

func TestCrossEntropy_OfLargeLogitsIsThatOfPyTorch(t *testing.T) { checkLargeLogits(t, onHost) }

func checkLargeLogits(t *testing.T, rigOf func(*testing.T) *rig) {
	text, err := os.ReadFile("testdata/largelogits.json")
	require.NoError(t, err)
	var cases []largeLogits
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s %v %v", c.DType, c.Logits, c.Smoothing), func(t *testing.T) { c.check(t, rigOf(t)) })
	}
}

func (c *largeLogits) check(t *testing.T, r *rig) {
	dt := map[string]tensor.DType{
		"float64": tensor.Float64, "float32": tensor.Float32, "float16": tensor.Float16, "bfloat16": tensor.BFloat16,
	}[c.DType]
	tolerance := map[tensor.DType]float64{tensor.Float64: 1e-14, tensor.Float32: 1e-6, tensor.Float16: 1e-3, tensor.BFloat16: 8e-3}[dt]
	logits := keep(t)(r.tensor(c.Logits, 1, len(c.Logits)).To(dt))
	for _, over := range []bool{false, true} { // the gradient is written over logits that nobody holds
		g := r.graph()
		x := g.Input(logits, autograd.RequiresGrad())
		near(t, "log_softmax", c.LogSoftmax, valuesOf(t, x.LogSoftmax(1)), tolerance)
		v := x
		if over {
			v = x.MulScalar(1)
		}
		loss := v.CrossEntropy(g.Input(r.ints([]int64{1})), autograd.LabelSmoothing(c.Smoothing)).Keep()
		near(t, "loss", []float64{c.Loss}, valuesOf(t, loss), tolerance)
		require.NoError(t, loss.Backward())
		near(t, "gradient", c.Grad, values(t, x.Grad()), tolerance)
		g.Release()
	}
}
