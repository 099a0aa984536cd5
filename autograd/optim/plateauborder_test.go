package optim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// On the border a metric is no improvement and a reduction too small, as in PyTorch; a factor of 0 is allowed.
func TestReduceLROnPlateau_AtTheBorders(t *testing.T) {
	for name, c := range map[string]struct {
		opts    []optim.PlateauOption
		metrics []float64
		lr      float64
	}{
		"relative":         {[]optim.PlateauOption{optim.Threshold(0.5, false)}, []float64{1, 0.5}, 0.25},
		"relative, rising": {[]optim.PlateauOption{optim.Threshold(0.5, false), optim.MaxMode()}, []float64{1, 1.5}, 0.25},
		"absolute":         {[]optim.PlateauOption{optim.Threshold(0.5, true)}, []float64{1, 0.5}, 0.25},
		"absolute, rising": {[]optim.PlateauOption{optim.Threshold(0.5, true), optim.MaxMode()}, []float64{1, 1.5}, 0.25},
		"better":           {[]optim.PlateauOption{optim.Threshold(0.5, true)}, []float64{1, 0.25}, 0.5},
		"eps":              {[]optim.PlateauOption{optim.PlateauEps(0.25)}, []float64{1, 1}, 0.5},
		"more than eps":    {[]optim.PlateauOption{optim.PlateauEps(0.125)}, []float64{1, 1}, 0.25},
		"factor 0":         {[]optim.PlateauOption{optim.PlateauFactor(0)}, []float64{1, 1}, 0},
	} {
		e, _ := newExec(t, host.New())
		opt := optim.SGD(params{param(t, e, 0, 3, tensor.Float32)}, optim.LR(0.5))
		s := optim.ReduceLROnPlateau(opt, append([]optim.PlateauOption{optim.PlateauFactor(0.5), optim.Patience(0)}, c.opts...)...)
		for _, m := range c.metrics {
			require.NoError(t, s.Step(m), name)
		}
		require.InDelta(t, c.lr, opt.LR(0), 0, name)
	}
}
