package stepgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/stepgraph"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	keys "github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// A model whose gradients are reduced over ranks is refused, whether it becomes one before the step is made, or captured, or later; and afterwards it is an ordinary one.
func TestStep_RefusesModelsWhoseGradientsGoElsewhere(t *testing.T) {
	for name, dev := range map[string]device.Device{"host": host.New(), "emulated": emulated(t)} {
		t.Run(name, func(t *testing.T) {
			for _, before := range []int{0, 2, 3, 5} {
				r := newTraining(t, dev, adamW)
				for turn := range before {
					r.take(turn)
				}
				divert := func(f autograd.Sink) {
					for _, p := range r.model.Parameters()[1:] {
						autograd.Divert(keys.Key{}, p, f)
					}
				}
				divert(func(*autograd.Graph, *tensor.Tensor) (bool, error) { return false, nil })
				refused := func(err error) {
					t.Helper()
					var e *stepgraph.Error
					require.ErrorAs(t, err, &e)
					require.ErrorContains(t, err, `parameter "bias" is trained by several ranks (parallel.Data)`)
				}
				_, err := r.try(before, rows, r.step.Run)
				refused(err)
				_, err = r.try(before, rows, r.step.Eager)
				refused(err)
				_, err = stepgraph.New(dev, r.run, stepgraph.Modules(r.model))
				refused(err)
				divert(nil)
				r.take(before)
				r.release()
			}
			nothingLeft(t, dev)
		})
	}
}
