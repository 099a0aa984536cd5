package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Found by internal/torchtest: a batch of rows and a layer of no units.
func TestLinearAct_OfNoUnitsIsEmpty(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.Ones(b.Exec, tensor.Float32, 2, 1, 3))
	w := must(t)(tensor.Ones(b.Exec, tensor.Float32, 0, 3))
	for _, f := range []tensor.Activation{tensor.ActIdentity, tensor.ActReLU, tensor.ActGELU} {
		y := must(t)(tensor.LinearAct(x, w, nil, f))
		require.Equal(t, tensor.Shape{2, 1, 0}, y.Shape())
	}
	y := must(t)(tensor.Linear(x, w, nil))
	require.Equal(t, tensor.Shape{2, 1, 0}, y.Shape())
}
