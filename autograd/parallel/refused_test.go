package parallel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/tensor"
)

// withModel gives each rank a model of its own on its device, and Data of it.
func withModel(r *rank, model nn.Module, opts []parallel.Option, f func(d *parallel.DataParallel) error) (err error) {
	if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)); err != nil {
		return err
	}
	defer model.Release()
	d, err := parallel.Data(model, r.comm, opts...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return f(d)
}

// graph is a graph of the rank with an input of ones.
func (r *rank) graph(rows, columns int) (*autograd.Graph, *autograd.Variable) {
	g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc))
	return g, g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, rows, columns) })
}

// backward is a pass over the model.
func (r *rank) backward(d *parallel.DataParallel, columns int) error {
	g, x := r.graph(2, columns)
	defer g.Release()
	return d.Forward(x).Square().Mean(nil, false).Backward()
}

func requireNothingKept(t *testing.T, all []*rank) {
	t.Helper()
	for i, r := range all {
		require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current, "rank %d", i)
		require.Zero(t, r.alloc.Stats().NumDeferredFrees, "rank %d", i)
	}
}

func TestData_NamesRankAndParameterThatDiffer(t *testing.T) {
	models := map[string]struct {
		model     func() nn.Layer
		parameter string
		text      string
	}{
		"shape":   {func() nn.Layer { return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 7)) }, "1.weight", `, first in "1.weight": rank 0 has float32 [2 4], trained, and rank 2 has float32 [7 4], trained`},
		"fewer":   {func() nn.Layer { return nn.Sequential(nn.Linear(3, 4)) }, "1.weight", `, first in "1.weight": rank 0 has float32 [2 4], trained, and rank 2 has nothing`},
		"more":    {func() nn.Layer { return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 2)) }, "", `: rank 0 has nothing, and rank 2 has "2.weight", float32 [2 2], trained`},
		"no bias": {func() nn.Layer { return nn.Sequential(nn.Linear(3, 4, nn.NoBias()), nn.Linear(4, 2)) }, "0.bias", `, first in "0.bias": rank 0 has float32 [4], trained, and rank 2 has "1.weight", float32 [2 4], trained`},
		"not trained": {func() nn.Layer {
			m := nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
			m.At(1).Parameters()[1].SetRequiresGrad(false)
			return m
		}, "1.bias", `, first in "1.bias": rank 0 has float32 [2], trained, and rank 2 has float32 [2], frozen`},
	}
	for name, c := range models {
		t.Run(name, func(t *testing.T) {
			all := ranks(t, 3)
			errs := together(all, func(r *rank) error {
				model := nn.Layer(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
				if r.comm.Rank() == 2 {
					model = c.model()
				}
				return withModel(r, model, nil, func(*parallel.DataParallel) error { return errors.New("it was not told") })
			})
			for i, err := range errs {
				var e *parallel.MismatchError
				require.ErrorAs(t, err, &e, "rank %d", i)
				require.Equal(t, 2, e.Rank)
				require.Equal(t, c.parameter, e.Parameter, err)
				require.EqualError(t, e, "parallel: the model of rank 2 differs from rank 0's"+c.text, "on all ranks")
			}
			requireNothingKept(t, all)
		})
	}
}

func TestData_NamesOptionsThatDiffer(t *testing.T) {
	errs := together(ranks(t, 2), func(r *rank) error {
		return withModel(r, nn.Linear(8, 8), []parallel.Option{parallel.ZeRO(r.comm.Rank())}, func(*parallel.DataParallel) error { return nil })
	})
	for _, err := range errs {
		require.ErrorContains(t, err, "ZeRO 0")
	}
}

// two is a model of two layers, of which a pass may use one.
type two struct {
	nn.Base
	A, B *nn.LinearLayer
	both bool
}

func (m *two) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable {
		y := m.A.Forward(x)
		if m.both {
			y = y.Add(m.B.Forward(x))
		}
		return y
	})
}

func newTwo() *two { return nn.New(&two{A: nn.Linear(16, 4), B: nn.Linear(16, 4)}) }

func TestBackward_NamesUnusedParameters(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			all := ranks(t, 2)
			errs := together(all, func(r *rank) error {
				m := newTwo()
				m.both = r.comm.Rank() == 0
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					err := r.backward(d, 16)
					require.Error(r.t, r.backward(d, 16), "the group has ended")
					return err
				})
			})
			var e *parallel.UnusedError
			require.ErrorAs(t, errs[1], &e)
			require.Equal(t, []string{"b.weight", "b.bias"}, e.Parameters)
			require.Equal(t, 1, e.Rank)
			require.ErrorIs(t, errs[0], comm.ErrAborted)
			require.ErrorContains(t, errs[0], "rank 1")
			require.ErrorContains(t, errs[0], "b.weight")
			requireNothingKept(t, all)
		})
	}
}

func TestFindUnused_CountsZeroForTheRankAndNothingForNobody(t *testing.T) {
	for stage := range 4 {
		t.Run(fmt.Sprint("ZeRO ", stage), func(t *testing.T) {
			succeed(t, 2, func(r *rank) error {
				m := newTwo()
				return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.FindUnused()}, func(d *parallel.DataParallel) error {
					for _, ranksWithB := range []int{0, 1, 2} {
						if stage == 3 { // all ranks run the same units
							ranksWithB = min(ranksWithB, 1) * 2
						}
						m.both = r.comm.Rank() < ranksWithB
						if err := r.backward(d, 16); err != nil {
							return err
						}
						have := len(d.ParametersOf(m.B.Bias))+len(d.ParametersOf(m.B.Weight)) > 0
						if have && stage == 0 {
							require.Equal(r.t, ranksWithB > 0, m.B.Weight.Grad() != nil)
						}
						for _, p := range append(d.ParametersOf(m.B.Weight), d.ParametersOf(m.B.Bias)...) {
							require.Equal(r.t, ranksWithB > 0, p.Grad() != nil)
						}
						for _, p := range append(d.ParametersOf(m.A.Weight), d.ParametersOf(m.A.Bias)...) {
							require.NotNil(r.t, p.Grad())
						}
						d.ZeroGrad()
					}
					return nil
				})
			})
		})
	}
}

func TestData_RefusesWhatCannotBe(t *testing.T) {
	other := host.New()
	defer func() { require.NoError(t, other.Close()) }()
	for text, c := range map[string]struct {
		model nn.Module
		to    device.Device
		opts  []parallel.Option
	}{
		"ZeRO(4)":               {model: nn.Linear(2, 2), opts: []parallel.Option{parallel.ZeRO(4)}},
		"BucketBytes(0, 5)":     {model: nn.Linear(2, 2), opts: []parallel.Option{parallel.BucketBytes(0, 5)}},
		"no parameter that":     {model: nn.ReLU()},
		"has no tensor":         {model: nn.Linear(3, 3), to: device.Device(nil)},
		"too small for 2 ranks": {model: nn.Linear(1, 1, nn.NoBias()), opts: []parallel.Option{parallel.ZeRO(1)}},
		"unit 0 is nil":         {model: nn.Linear(20, 1), opts: []parallel.Option{parallel.ZeRO(3), parallel.Units(nil)}},
		"the model is nil":      {},
	} {
		t.Run(text, func(t *testing.T) {
			all := ranks(t, 2)
			errs := together(all[:1], func(r *rank) error {
				if c.model != nil && text != "has no tensor" {
					require.NoError(t, c.model.To(r.dev, nn.WithAllocator(r.alloc)))
					defer c.model.Release()
				}
				if strings.HasPrefix(text, "too") || strings.HasPrefix(text, "unit") { // known only after the ranks have compared: the other one comes too
					done := make(chan struct{})
					go func() {
						defer close(done)
						m := nn.Linear(1, 1, nn.NoBias())
						if text != "too small for 2 ranks" {
							m = nn.Linear(20, 1)
						}
						_ = withModel(all[1], m, c.opts, func(*parallel.DataParallel) error { return nil })
					}()
					defer func() { <-done }()
				}
				_, err := parallel.Data(c.model, r.comm, c.opts...)
				return err
			})
			var e *parallel.Error
			require.ErrorAs(t, errs[0], &e)
			require.ErrorContains(t, errs[0], text)
			require.ErrorIs(t, all[1].comm.Barrier(t.Context()), comm.ErrAborted, "the others must not wait")
			requireNothingKept(t, all)
		})
	}
	_, err := parallel.Data(nn.Linear(1, 1), nil)
	require.ErrorContains(t, err, "the Comm is nil")
}

// A pass over a graph that Run does not know would leave its gradients half reduced.
func TestBackward_RefusesGraphsThatRunDoesNotKnow(t *testing.T) {
	all := ranks(t, 1)
	r := all[0]
	m := nn.Linear(8, 8)
	err := withModel(r, m, nil, func(d *parallel.DataParallel) error {
		g, x := r.graph(2, 8)
		defer g.Release()
		require.ErrorContains(t, m.Forward(x).Square().Mean(nil, false).Backward(), "was not run by Run or Forward")
		require.NoError(t, r.backward(d, 8))
		h, x := r.graph(2, 8)
		defer h.Release()
		require.ErrorContains(t, m.Forward(x).Square().Mean(nil, false).Backward(), "was not run by Run or Forward")
		defer d.ZeroGrad()
		return r.backward(d, 8)
	})
	require.NoError(t, err)
	requireNothingKept(t, all)
}

func TestDataParallel_AfterCloseAndOfNil(t *testing.T) {
	r := ranks(t, 1)[0]
	m := nn.Linear(8, 8)
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc)))
	defer m.Release()
	d, err := parallel.Data(m, r.comm)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	require.ErrorIs(t, r.backward(d, 8), device.ErrClosed)
	require.Error(t, d.Whole(func() error { return nil }))
	g, x := r.graph(2, 8)
	defer g.Release()
	require.NoError(t, m.Forward(x).Square().Mean(nil, false).Backward())
	require.NotNil(t, m.Weight.Grad(), "the model is an ordinary one again")
	for _, d := range []*parallel.DataParallel{nil, {}} {
		require.NoError(t, d.Close())
		require.Error(t, d.NoSync(nil))
		require.Error(t, d.Whole(nil))
		require.Error(t, d.Unshard())
		_, err := d.ClipGradNorm(1)
		require.Error(t, err)
		require.Error(t, d.AgreeOverflow(nil))
		require.Empty(t, d.Parameters())
		d.ZeroGrad()
		h, x := r.graph(2, 8)
		d.Forward(x)
		require.Error(t, h.Err())
		h.Release()
	}
}

func TestGather_HasTheNumbersOfAllRanks(t *testing.T) {
	for i, err := range together(ranks(t, 3), func(r *rank) error {
		return withModel(r, nn.Linear(8, 8), nil, func(d *parallel.DataParallel) error {
			k := float64(r.comm.Rank())
			all, err := d.Gather(k, 10*k)
			require.Equal(t, [][]float64{{0, 0}, {1, 10}, {2, 20}}, all)
			if err == nil {
				all, err = d.Gather()
				require.Len(t, all, 3)
			}
			return err
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
	_, err := (*parallel.DataParallel)(nil).Gather(1)
	require.Error(t, err)
}

// A step that is captured and replayed would start no collectives.
func TestRun_RefusesStreamsThatAreCaptured(t *testing.T) {
	all := ranks(t, 1)
	r := all[0]
	m := nn.Linear(8, 8)
	require.NoError(t, withModel(r, m, nil, func(d *parallel.DataParallel) error {
		s, err := r.dev.NewStream()
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		pass := func() error {
			g := autograd.NewGraph(r.dev, autograd.WithAllocator(r.alloc), autograd.WithStream(s))
			defer g.Release()
			x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2, 8) })
			return d.Forward(x).Mean(nil, false).Backward()
		}
		prepared := replay.Prepare(s)
		require.ErrorContains(t, pass(), "stepgraph.Step, whose replays start no collectives")
		prepared.End()
		require.NoError(t, pass(), "the group goes on")
		d.ZeroGrad()
		return nil
	}))
	requireNothingKept(t, all)
}
