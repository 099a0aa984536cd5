package parallel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// sharding is a way to keep a model.
type sharding struct {
	stage  int
	master bool
}

func (s sharding) String() string { return fmt.Sprintf("ZeRO %d, master %v", s.stage, s.master) }

var shardings = []sharding{{0, false}, {1, false}, {2, false}, {3, false}, {1, true}, {2, true}, {3, true}}

// each trains a model on two ranks for a step, and gives it to f.
func (s sharding) each(t *testing.T, f func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel, step func(lr float64) error) error) {
	t.Run(s.String(), func(t *testing.T) {
		all := ranks(t, 2)
		for i, err := range together(all, func(r *rank) (err error) {
			m, err := s.model(r, 1)
			if err != nil {
				return err
			}
			defer m.Release()
			opts := []parallel.Option{parallel.ZeRO(s.stage), parallel.BucketBytes(100, 100)}
			if s.master {
				opts = append(opts, parallel.MasterWeights())
			}
			d, err := parallel.Data(m, r.comm, opts...)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, d.Close()) }()
			step := func(lr float64) error {
				g, x := r.graph(2, 8)
				defer g.Release()
				err := d.Forward(x.To(s.dtype())).Square().Mean(nil, false).Backward()
				if err == nil {
					err = optim.SGD(d.Parameters(), optim.LR(lr)).Step()
				}
				d.ZeroGrad()
				return err
			}
			if err := step(1e-3); err != nil {
				return err
			}
			return f(r, m, d, step)
		}) {
			require.NoError(t, err, "rank %d", i)
		}
		requireNothingKept(t, all)
	})
}

func (s sharding) dtype() tensor.DType {
	if s.master {
		return tensor.BFloat16
	}
	return tensor.Float32
}

func (s sharding) model(r *rank, seed uint64) (*nn.SequentialModule, error) {
	m := nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
	return m, m.To(r.dev, nn.Seed(seed), nn.WithAllocator(r.alloc), nn.DType(s.dtype()))
}

// wholeValues are the model's, on all ranks.
func wholeValues(d *parallel.DataParallel, m nn.Module) (values map[string][]float64, err error) {
	err = errors.Join(d.Whole(func() (err error) {
		values, err = valuesOf(m)
		return err
	}), err)
	return values, err
}

// What is loaded is what is trained from then on, whoever keeps it.
func TestWhole_LoadsWhatIsTrainedFromThenOn(t *testing.T) {
	ctx := context.Background()
	for way, into := range map[string]func(buf *bytes.Buffer, m nn.Module) error{
		"nn.Load": func(buf *bytes.Buffer, m nn.Module) error { return nn.Load(buf, m) },
		"checkpoint.Read": func(buf *bytes.Buffer, m nn.Module) error {
			return checkpoint.New().Add("model", checkpoint.Module(m)).Read(ctx, buf)
		},
	} {
		for _, s := range shardings {
			s.each(t, func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel, step func(float64) error) error {
				source, err := s.model(r, 99)
				if err != nil {
					return err
				}
				defer source.Release()
				want, err := valuesOf(source)
				if err != nil {
					return err
				}
				var buf bytes.Buffer
				if way == "nn.Load" {
					err = nn.Save(&buf, source)
				} else {
					err = checkpoint.New().Add("model", checkpoint.Module(source)).Write(ctx, &buf)
				}
				if err = errors.Join(err, d.Whole(func() error { return into(&buf, m) })); err != nil {
					return err
				}
				for range 2 { // and after a step that changes nothing to speak of
					have, err := wholeValues(d, m)
					if err != nil {
						return err
					}
					for name, v := range want {
						require.InDeltaSlice(r.t, v, have[name], 1e-6, "%s of %s", name, way)
					}
					if err := step(1e-12); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

// A value that is as it was keeps what its float32 has beyond half precision, and replaced tensors are those of the model.
func TestWhole_ChangesNoMoreThanItsFunctionDoes(t *testing.T) {
	for _, s := range shardings {
		s.each(t, func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel, step func(float64) error) error {
			kept := func() (values [][]float64) {
				for _, p := range d.ParametersOf(m.At(0).(*nn.LinearLayer).Weight) {
					v, err := p.Tensor().Float64s()
					require.NoError(r.t, err)
					values = append(values, v)
				}
				return values
			}
			before, bias, out := kept(), m.At(0).(*nn.LinearLayer).Bias, m.At(2).(*nn.LinearLayer).Bias
			err := d.Whole(func() error {
				if err := bias.Tensor().FillInPlace(0.5); err != nil {
					return err
				}
				other, err := tensor.Full(out.Tensor().Exec(), 0.25, s.dtype(), 4)
				if err != nil {
					return err
				}
				out.Release()
				return out.SetTensor(other)
			})
			if err := errors.Join(err, step(0)); err != nil {
				return err
			}
			require.Equal(r.t, before, kept())
			have, err := wholeValues(d, m)
			require.Equal(r.t, []float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, have["0.bias"])
			require.Equal(r.t, []float64{0.25, 0.25, 0.25, 0.25}, have["2.bias"])
			return err
		})
	}
}

// What a rank's part cannot have is an error, and the model as it was.
func TestWhole_RefusesOtherTypesAndNothing(t *testing.T) {
	for _, s := range shardings[1:] {
		s.each(t, func(r *rank, m *nn.SequentialModule, d *parallel.DataParallel, step func(float64) error) error {
			before, err := wholeValues(d, m)
			if err != nil {
				return err
			}
			bias := m.At(2).(*nn.LinearLayer).Bias
			for why, f := range map[string]func() error{
				"it is of float64 now": func() error { return bias.To(bias.Tensor().Exec(), tensor.Float64) },
				"has released it":      func() error { bias.Release(); return nil },
			} {
				err = d.Whole(f)
				var e *parallel.Error
				require.ErrorAs(r.t, err, &e)
				require.Equal(r.t, "2.bias", e.Parameter)
				require.ErrorContains(r.t, err, why)
				require.ErrorContains(r.t, err, "before Data")
			}
			mine := errors.New("mine")
			require.ErrorIs(r.t, d.Whole(func() error { return mine }), mine)
			after, err := wholeValues(d, m)
			require.Equal(r.t, before, after)
			return errors.Join(err, step(1e-3))
		})
	}
}
