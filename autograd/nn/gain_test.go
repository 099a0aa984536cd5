package nn_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

func TestInit_SaysWhatIsWrongWithAGain(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 3)
	r.place(l)
	for _, gain := range []float64{-1, math.NaN(), math.Inf(1)} {
		for name, init := range map[string]autograd.Initializer{
			"XavierUniform": nn.XavierUniform(gain), "XavierNormal": nn.XavierNormal(gain),
			"KaimingUniform": nn.KaimingUniform(nn.FanIn, gain), "KaimingNormal": nn.KaimingNormal(nn.FanOut, gain),
		} {
			var argument *nn.ArgumentError
			err := nn.Init(l.Weight, init, nil)
			require.ErrorAs(t, err, &argument, name)
			require.EqualError(t, err, fmt.Sprintf("nn: Init: parameter \"weight\": nn: %s: a gain of %v; it must be at least 0, and finite", name, gain))
		}
	}
	require.NoError(t, nn.Init(l.Weight, nn.XavierNormal(0), nil))
}
