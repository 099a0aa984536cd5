package parallel_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
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

// Gradients of parameters in half precision are reduced as such.
func TestData_TrainsParametersInHalfPrecision(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for stage := range 4 {
			t.Run(fmt.Sprintf("%s, ZeRO %d", dt, stage), func(t *testing.T) {
				c := training{dtype: dt, steps: 6, opt: sgd, options: []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(200, 1000)}}
				requireClose(t, single(t, c), trained(t, 2, c), 3e-2)
			})
		}
	}
}

// A step that is less than half of a bfloat16's last bit is lost, but for master weights.
func TestMasterWeights_KeepWhatRoundingLoses(t *testing.T) {
	tiny := func(ps []*autograd.Parameter) *optim.Grouped {
		return optim.AdamW(ps, optim.LR(2e-4), optim.WeightDecay(0))
	}
	model := func() nn.Layer {
		l := nn.Linear(inputs, classes, nn.NoBias())
		return nn.Sequential(l)
	}
	for stage := 1; stage < 4; stage++ {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			exact := training{model: model, opt: tiny, steps: 40}
			want := single(t, exact)
			moved := func(opts ...parallel.Option) (off float64) {
				c := exact
				c.dtype, c.options = tensor.BFloat16, append(opts, parallel.ZeRO(stage))
				have := trained(t, 2, c)
				for i, v := range want.values["0.weight"] {
					off += math.Abs(v-have.values["0.weight"][i]) / float64(len(want.values["0.weight"]))
				}
				return off
			}
			require.Less(t, moved(parallel.MasterWeights())*2, moved())
		})
	}
}

// Batch norms over all ranks have the moments, and the gradients, of the whole batch; and so have the running statistics.
func TestSyncBatchNorm_IsABatchNormOfTheWholeBatch(t *testing.T) {
	model := func() nn.Layer {
		return nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16, nn.Affine(false)), nn.Linear(16, classes))
	}
	for stage := range 4 {
		for _, n := range []int{2, 4} {
			t.Run(fmt.Sprintf("%d ranks, ZeRO %d", n, stage), func(t *testing.T) {
				c := training{model: model, steps: 6, opt: sgd, batch: 16, options: []parallel.Option{parallel.ZeRO(stage), parallel.SyncBatchNorm()}}
				requireClose(t, single(t, c), trained(t, n, c), 5e-5)
			})
		}
	}
	t.Run("without", func(t *testing.T) {
		c := training{model: model, steps: 6, opt: sgd, batch: 16}
		want, have := single(t, c), trained(t, 2, c)
		require.Greater(t, math.Abs(want.losses[5]-have.losses[5]), 1e-3, "it must matter")
	})
}

// The buffers of all ranks are rank 0's at each forward pass: here the running statistics of a batch norm, and the count of its batches.
func TestBroadcastBuffers(t *testing.T) {
	for _, on := range []bool{true, false} {
		all, means := ranks(t, 2), make([][]float64, 2)
		for i, err := range together(all, func(r *rank) error {
			m := nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8))
			return withModel(r, m, []parallel.Option{parallel.BroadcastBuffers(on)}, func(d *parallel.DataParallel) error {
				bn := m.At(1).(*nn.BatchNormLayer)
				if err := bn.RunningMean.Tensor().FillInPlace(float64(10 + r.comm.Rank())); err != nil {
					return err
				}
				if err := bn.BatchesTracked.Tensor().FillInPlace(float64(5 + r.comm.Rank())); err != nil {
					return err
				}
				err := d.NoSync(func() error { return r.backward(d, inputs) }) // sends nothing
				require.EqualValues(t, 6+r.comm.Rank(), must(bn.BatchesTracked.Tensor().Item()))
				if err == nil {
					err = r.backward(d, inputs)
				}
				if err != nil {
					return err
				}
				means[r.comm.Rank()] = must(bn.RunningMean.Tensor().Float64s())
				if on {
					require.EqualValues(t, 7, must(bn.BatchesTracked.Tensor().Item()))
				}
				return nil
			})
		}) {
			require.NoError(t, err, "rank %d", i)
		}
		require.Equal(t, on, fmt.Sprint(means[0]) == fmt.Sprint(means[1]))
		require.Greater(t, means[0][0], 5.0)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Graphs may work on another stream than the parameters', a new one in each pass.
func TestData_OrdersTheStreamsOfGraphsAndParameters(t *testing.T) {
	for stage := range 4 {
		for _, parts := range []int{1, 2} {
			t.Run(fmt.Sprintf("ZeRO %d, %d parts", stage, parts), func(t *testing.T) {
				c := training{model: func() nn.Layer { return newTied(true, true) }, streams: true, accumulate: parts, steps: 6, opt: sgd}
				c.options = []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(1000, 4000)}
				requireClose(t, single(t, c), trained(t, 2, c), 2e-5)
			})
		}
	}
}
