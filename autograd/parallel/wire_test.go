package parallel_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/commtest"
	"github.com/cistern-ml/cistern/tensor"
)

// even has parameters that shards divide evenly: 64*64 + 64*64 elements.
func even() nn.Layer {
	return nn.Sequential(nn.Linear(64, 64, nn.NoBias()), nn.ReLU(), nn.Linear(64, 64, nn.NoBias()))
}

// traffic is what a step sends after the first two, by the counts of rank 0.
func traffic(t *testing.T, n, parts int, noSync bool, opts ...parallel.Option) comm.Stats {
	t.Helper()
	all := ranks(t, n)
	var before, after comm.Stats
	for i, err := range together(all, func(r *rank) error {
		m := even()
		return withModel(r, m, append(opts, parallel.BucketBytes(1, 1)), func(d *parallel.DataParallel) error {
			opt := optim.SGD(d.Parameters(), optim.LR(0.01))
			defer opt.Release()
			for step := range 4 {
				if r.comm.Rank() == 0 && step == 2 {
					before = r.comm.Stats()
				}
				if r.comm.Rank() == 0 && step == 3 {
					after = r.comm.Stats()
				}
				for part := range parts {
					pass := func() error { return r.backward(d, 64) }
					if noSync && part < parts-1 {
						if err := d.NoSync(pass); err != nil {
							return err
						}
						continue
					}
					if err := pass(); err != nil {
						return err
					}
				}
				if err := opt.Step(); err != nil {
					return err
				}
				opt.ZeroGrad()
			}
			return nil
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
	sub := func(a, b comm.Traffic) comm.Traffic {
		return comm.Traffic{Calls: a.Calls - b.Calls, Bytes: a.Bytes - b.Bytes}
	}
	return comm.Stats{AllReduce: sub(after.AllReduce, before.AllReduce), ReduceScatter: sub(after.ReduceScatter, before.ReduceScatter),
		AllGather: sub(after.AllGather, before.AllGather), Broadcast: sub(after.Broadcast, before.Broadcast), Barrier: sub(after.Barrier, before.Barrier)}
}

// A step sends what the ZeRO paper says (section 7): 2Ψ with stages 0 to 2, 3Ψ with 3, times (n-1)/n in a ring; with accumulation as little as without.
func TestData_SendsWhatThePaperSays(t *testing.T) {
	const psi = 2 * 64 * 64 * 4 // bytes
	for _, n := range []int{2, 4} {
		once := int64(psi * (n - 1) / n)
		for stage, want := range []comm.Stats{
			{AllReduce: comm.Traffic{Calls: 2, Bytes: 2 * once}},
			{ReduceScatter: comm.Traffic{Calls: 2, Bytes: once}, AllGather: comm.Traffic{Calls: 2, Bytes: once}},
			{ReduceScatter: comm.Traffic{Calls: 2, Bytes: once}, AllGather: comm.Traffic{Calls: 2, Bytes: once}},
			{ReduceScatter: comm.Traffic{Calls: 2, Bytes: once}, AllGather: comm.Traffic{Calls: 4, Bytes: 2 * once}},
		} {
			t.Run(fmt.Sprintf("%d ranks, ZeRO %d", n, stage), func(t *testing.T) {
				if stage == 3 { // the first layer's input needs no gradient, so backward does not read its weight
					want.AllGather = comm.Traffic{Calls: 3, Bytes: 2*once - once/2}
				}
				require.Equal(t, want, traffic(t, n, 1, false, parallel.ZeRO(stage)))
				if stage < 3 {
					require.Equal(t, want, traffic(t, n, 3, true, parallel.ZeRO(stage)))
				}
			})
		}
	}
}

// A bucket is sent while backward goes on: when the gradients of the first layer are computed, those of the last are on their way.
func TestBackward_SendsWhileItGoesOn(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			for i, err := range together(ranks(t, 2), func(r *rank) error {
				m := nn.Sequential(nn.Linear(64, 64, nn.NoBias()), nn.ReLU(), nn.Linear(64, 64, nn.NoBias()))
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(1, 1)}, func(d *parallel.DataParallel) error {
					sent := int64(-1)
					before := r.comm.Stats()
					m.At(0).Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) {
						s := r.comm.Stats()
						sent = s.AllReduce.Calls + s.ReduceScatter.Calls - before.AllReduce.Calls - before.ReduceScatter.Calls
						return nil, nil
					})
					err := r.backward(d, 64)
					require.EqualValues(r.t, 1, sent)
					return err
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
		})
	}
}

// held is a Comm whose reductions wait, on their stream, until the test opens a gate.
func held(c comm.Comm, gate <-chan struct{}) comm.Comm {
	return commtest.Hooked{Comm: c, Before: func(s device.Stream, call comm.Call) error {
		if call.Operation != "AllReduce" && call.Operation != "ReduceScatter" {
			return nil
		}
		return s.(device.Executor).Submit("gate", func() error {
			select {
			case <-gate:
				return nil
			case <-time.After(limit):
				return errors.New("backward waits for a reduction before it is done")
			}
		})
	}}
}

// Backward waits for no reduction before its end: here the links are so slow that the first one goes through only when the gradient of the first layer has been computed.
func TestBackward_HidesReductions(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			for i, err := range together(ranks(t, 2), func(r *rank) error {
				gate := make(chan struct{})
				r.comm = held(r.comm, gate)
				m := even()
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(1, 1)}, func(d *parallel.DataParallel) error {
					handle := m.Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) {
						close(gate)
						return nil, nil
					})
					if err := r.backward(d, 64); err != nil {
						return err
					}
					handle.Remove()
					return r.backward(d, 64)
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
		})
	}
}

// crossed runs its layers in another order than it lists them.
type crossed struct {
	nn.Base
	C, B, A *nn.LinearLayer
}

func (m *crossed) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.B.Forward(m.C.Forward(m.A.Forward(x))) })
}

// The first pass reduces buckets in the reverse order of the parameters, the others in the order in which backward comes to them: when the last of three layers that backward comes to has its
// gradient, those of the other two are on their way.
func TestBackward_LearnsItsOrder(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			for i, err := range together(ranks(t, 2), func(r *rank) error {
				l := func() *nn.LinearLayer { return nn.Linear(16, 16, nn.NoBias()) }
				m := nn.New(&crossed{A: l(), B: l(), C: l()})
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(1, 1)}, func(d *parallel.DataParallel) error {
					var sent, before int64
					count := func() int64 { s := r.comm.Stats(); return s.AllReduce.Calls + s.ReduceScatter.Calls }
					m.A.Weight.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { sent = count() - before; return nil, nil })
					for pass, want := range []int64{0, 2, 2} { // the first one waits for A, which is listed last
						before = count()
						if err := r.backward(d, 16); err != nil {
							return err
						}
						require.Equal(t, want, sent, "pass %d", pass)
						d.ZeroGrad()
					}
					return nil
				})
			}) {
				require.NoError(t, err, "rank %d", i)
			}
		})
	}
}
