package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// withinHook is what hooks must not call, with the error.
var withinHook = map[string]struct {
	call func(r *rank, d *parallel.DataParallel) error
	text string
	from int  // the stage
	post bool // also in a hook that is called with the sum
}{
	"ClipGradNorm": {func(_ *rank, d *parallel.DataParallel) error { _, err := d.ClipGradNorm(1); return err }, "a backward pass is under way", 1, false},
	"Step":         {func(_ *rank, d *parallel.DataParallel) error { return optim.SGD(d.Parameters(), optim.LR(1)).Step() }, "a backward pass is under way", 1, false},
	"Unshard":      {func(_ *rank, d *parallel.DataParallel) error { return d.Unshard() }, "Unshard: a backward pass is under way", 0, true},
	"Close":        {func(_ *rank, d *parallel.DataParallel) error { return d.Close() }, "Close: a backward pass is under way", 0, true},
	"Forward": {func(r *rank, d *parallel.DataParallel) error {
		g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.NoGrad())
		defer g.Release()
		_, err := d.Forward(g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 16) })).Float64s()
		return err
	}, "another pass of it is under way", 0, true},
}

// What a hook must not call says that a backward pass is under way, in either kind of hook and with every stage. What only ends the group does nothing then, so that a program that leaves it be goes on.
func TestHook_ThatCallsTheDataParallelIsToldThatAPassIsUnderWay(t *testing.T) {
	for name, c := range withinHook {
		for _, post := range []bool{false, true} {
			if post && !c.post {
				continue
			}
			t.Run(name+map[bool]string{false: " in RegisterHook", true: " in a post-accumulate hook"}[post], func(t *testing.T) {
				for _, n := range []int{2, 4} {
					sharedOutOver(t, n, []int{0, 1, 2, 3}[c.from:], func(r *rank, _ int, m *nn.SequentialModule, d *parallel.DataParallel) error {
						var told []error
						call := func() { told = append(told, c.call(r, d)) }
						if post {
							d.Parameters()[0].RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { call(); return nil })
						} else { // of the first layer, when the last one's gradients are there
							m.Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { call(); return nil, nil })
						}
						err := r.backward(d, 16)
						if name == "ClipGradNorm" || name == "Forward" { // the others wait for it: one rank is told in its hook, and tells them
							if err == nil {
								_, err = d.Gather(1)
							}
							require.ErrorContains(r.t, err, c.text)
							require.NotContains(r.t, err.Error(), "NoSync")
							d.ZeroGrad()
							return nil
						}
						require.NotEmpty(r.t, told)
						require.ErrorContains(r.t, told[0], c.text)
						require.NotContains(r.t, told[0].Error(), "NoSync")
						if name == "Unshard" || name == "Close" {
							require.NoError(r.t, err)
							require.NoError(r.t, r.backward(d, 16))
							_, err = d.ClipGradNorm(1)
						} else if name == "Step" {
							require.NoError(r.t, err)
						}
						d.ZeroGrad()
						return err
					})
				}
			})
		}
	}
}
