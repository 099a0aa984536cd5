package parallel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// n ranks train as one process with n times the batch does.
func TestData_TrainsAsOneProcessWithTheWholeBatch(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		for stage := range 4 {
			for _, accumulate := range []int{1, 2} {
				t.Run(fmt.Sprintf("%d ranks, ZeRO %d, %d parts", n, stage, accumulate), func(t *testing.T) {
					c := training{options: []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(200, 1000)}, accumulate: accumulate, seed: 3}
					want, have := single(t, c), trained(t, n, c)
					requireClose(t, want, have, 2e-4)
					require.Less(t, have.losses[len(have.losses)-1], have.losses[0], "it must have trained")
				})
			}
		}
	}
}

// So do they in lower precision, with a scaler that all ranks agree with, and gradients that are clipped.
func TestData_TrainsInLowerPrecisionAndWithClipping(t *testing.T) {
	scaler := func(d *parallel.DataParallel) *amp.GradScaler {
		opts := []amp.ScalerOption{amp.InitScale(1 << 12), amp.GrowthInterval(4)}
		if d != nil {
			opts = append(opts, amp.AgreedBy(d))
		}
		return amp.NewGradScaler(opts...)
	}
	for stage := range 4 {
		for name, c := range map[string]training{
			"bfloat16":        {autocast: tensor.BFloat16},
			"bfloat16, parts": {autocast: tensor.BFloat16, accumulate: 2},
			"float16, scaler": {autocast: tensor.Float16, scaler: scaler},
			"clipped":         {clip: 0.05, opt: sgd},
			"clipped, scaled": {clip: 0.05, scaler: scaler, opt: sgd, accumulate: 2},
		} {
			t.Run(fmt.Sprintf("ZeRO %d, %s", stage, name), func(t *testing.T) {
				c.options = []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(200, 1000)}
				if c.steps = 8; c.opt == nil {
					c.opt = sgd // Adam would make a step of the learning rate of the sign of a rounding error
				}
				tolerance := 1e-5
				if c.autocast != 0 {
					tolerance = 2e-2 // of bfloat16's 8 bits; parts of a batch round differently
				}
				requireClose(t, single(t, c), trained(t, 2, c), tolerance)
			})
		}
	}
}

func sgd(ps []*autograd.Parameter) *optim.Grouped {
	return optim.SGD(ps, optim.LR(0.1), optim.Momentum(0.9))
}

// If a gradient overflows on one rank alone, in its part, all leave the step out and halve the scale.
func TestData_RanksAgreeOnOverflow(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			scales := make([]float64, 2)
			var scalers [2]*amp.GradScaler
			c := training{options: []parallel.Option{parallel.ZeRO(stage)}, steps: 3, opt: sgd}
			c.scaler = func(d *parallel.DataParallel) *amp.GradScaler {
				s := amp.NewGradScaler(amp.InitScale(8), amp.AgreedBy(d))
				scalers[d.Comm().Rank()] = s
				return s
			}
			c.watch = func(r *rank, d *parallel.DataParallel, opt *optim.Grouped, step int, when string) error {
				if step == 1 && when == "backward" && (stage == 0 || r.comm.Rank() == 1) { // with ZeRO 0 all have the same gradients
					return d.Parameters()[0].Grad().FillInPlace(math.Inf(1))
				}
				if step == 2 && when == "step" {
					var err error
					scales[r.comm.Rank()], err = scalers[r.comm.Rank()].GetScale()
					return err
				}
				return nil
			}
			res := trained(t, 2, c)
			require.Equal(t, []float64{4, 4}, scales)
			for _, v := range res.losses {
				require.False(t, math.IsNaN(v))
			}
		})
	}
}
