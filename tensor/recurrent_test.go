package tensor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// recurrentLayer makes a layer with T steps of a batch of B.
func recurrentLayer(t *testing.T, b bench, gru bool, steps, batch, inputs, units int, make func(shape ...int) *tensor.Tensor) *tensor.Recurrent {
	t.Helper()
	gates := 4
	if gru {
		gates = 3
	}
	r := &tensor.Recurrent{
		GRU: gru, X: make(steps, batch, inputs), H0: make(batch, units), WeightIH: make(gates*units, inputs),
		WeightHH: make(gates*units, units), BiasIH: make(gates * units), BiasHH: make(gates * units),
	}
	if !gru {
		r.C0 = make(batch, units)
	}
	return r
}

func zeros(t *testing.T, b bench) func(shape ...int) *tensor.Tensor {
	return func(shape ...int) *tensor.Tensor { return must(t)(tensor.Zeros(b.Exec, tensor.Float32, shape...)) }
}

func TestRecurrent_TakesTwoLaunchesForAStep(t *testing.T) {
	for _, gru := range []bool{false, true} {
		launches := 0
		b, _ := onSim(t, sim.OnCall(func(c sim.Call) {
			if c.Kind == sim.CallSubmit {
				launches++
			}
		}))
		count := func(steps int) (forward, backward int) {
			r := recurrentLayer(t, b, gru, steps, 2, 3, 4, zeros(t, b))
			launches = 0
			s, err := r.Forward(true)
			require.NoError(t, err)
			forward = launches
			launches = 0
			g, err := gradients.Recurrent(r, s, s.Output, nil, nil, training.Wants{X: true, WeightIH: true, WeightHH: true, Bias: true}, true)
			require.NoError(t, err)
			backward = launches
			g.Release()
			s.Release()
			return forward, backward
		}
		f5, b5 := count(5)
		f9, b9 := count(9)
		require.Equal(t, 4*2, f9-f5, "a product and a cell")
		require.Equal(t, 4*2, b9-b5)
	}
}

func TestRecurrent_KeepsGatesAndCellsOnlyForBackward(t *testing.T) {
	b, _ := onSim(t)
	r := recurrentLayer(t, b, false, 8, 16, 4, 32, zeros(t, b)) // a state takes 2 KiB
	const state = 16 * 32 * 4
	before := b.allocated()
	s, err := r.Forward(true)
	require.NoError(t, err)
	require.EqualValues(t, before+8*(1+4+1)*state+2*state, b.allocated(), "output, gates, cells; the last state and cell")
	s.Release()
	s, err = r.Forward(false)
	require.NoError(t, err)
	require.EqualValues(t, before+8*state+2*state, b.allocated())
	s.Release()
	require.Equal(t, before, b.allocated())
}

func TestRecurrent_WritesTheGradientsOfGatesOverTheGates(t *testing.T) {
	b, _ := onSim(t)
	r := recurrentLayer(t, b, false, 8, 16, 4, 32, zeros(t, b))
	const state = 16 * 32 * 4
	peak := func(reuse bool) int64 {
		s, err := r.Forward(true)
		require.NoError(t, err)
		defer s.Release()
		before := b.allocated()
		b.alloc.(interface{ ResetPeakStats() }).ResetPeakStats()
		g, err := gradients.Recurrent(r, s, s.Output, nil, nil, training.Wants{}, reuse)
		require.NoError(t, err)
		g.Release()
		return b.alloc.Stats().AllocatedBytes.All.Peak - before
	}
	require.EqualValues(t, 2*state, peak(true), "what flows to the step before")
	require.EqualValues(t, (2+8*4)*state, peak(false))
}

func TestRecurrent_OfHalfPrecisionIsNearFloat32(t *testing.T) {
	b := onHost(t)
	for _, gru := range []bool{false, true} {
		var outs [][]float64
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			gen := tensor.NewGenerator(1)
			r := recurrentLayer(t, b, gru, 6, 3, 5, 7, func(shape ...int) *tensor.Tensor {
				wide := must(t)(tensor.Uniform(b.Exec, gen, -0.5, 0.5, tensor.Float32, shape...))
				return must(t)(wide.To(dt))
			})
			s, err := r.Forward(false)
			require.NoError(t, err)
			outs = append(outs, values(t, s.Output))
			s.Release()
		}
		require.InDeltaSlice(t, outs[0], outs[1], 3e-3)
		require.InDeltaSlice(t, outs[0], outs[2], 3e-2)
	}
}

func TestRecurrent_OfNothingGivesNothing(t *testing.T) {
	b := onHost(t)
	for _, gru := range []bool{false, true} {
		for _, size := range [][3]int{{0, 3, 4}, {2, 0, 4}, {2, 3, 0}} {
			r := recurrentLayer(t, b, gru, 3, size[0], size[1], size[2], zeros(t, b))
			s, err := r.Forward(true)
			require.NoError(t, err)
			g, err := gradients.Recurrent(r, s, s.Output, nil, nil, training.Wants{X: true, WeightIH: true, WeightHH: true, Bias: true}, false)
			require.NoError(t, err)
			require.Equal(t, r.X.Shape(), g.X.Shape(), fmt.Sprint(size))
			require.Equal(t, r.WeightHH.Shape(), g.WeightHH.Shape())
			for _, v := range values(t, g.WeightIH) {
				require.Zero(t, v)
			}
			g.Release()
			s.Release()
		}
	}
}

func TestRecurrent_RefusesWrongOperands(t *testing.T) {
	b := onHost(t)
	good := func() *tensor.Recurrent { return recurrentLayer(t, b, false, 3, 2, 4, 5, zeros(t, b)) }
	half := must(t)(tensor.Zeros(b.Exec, tensor.Float16, 2, 5))
	before := b.allocated()
	for name, c := range map[string]struct {
		spoil func(r *tensor.Recurrent)
		want  refusal
	}{
		"flat input":  {func(r *tensor.Recurrent) { r.X = r.H0 }, "shape"},
		"weight":      {func(r *tensor.Recurrent) { r.WeightIH = r.WeightHH }, "shape"},
		"state":       {func(r *tensor.Recurrent) { r.H0 = r.WeightHH }, "shape"},
		"cell's type": {func(r *tensor.Recurrent) { r.C0 = half }, "dtype"},
		"bias":        {func(r *tensor.Recurrent) { r.BiasHH = r.H0 }, "shape"},
		"gates":       {func(r *tensor.Recurrent) { r.GRU = true }, "shape"},
	} {
		r := good()
		c.spoil(r)
		held := b.allocated()
		_, err := r.Forward(true)
		require.Equal(t, c.want, kindOf(err), name)
		typed(t, "Recurrent", err)
		require.Equal(t, held, b.allocated(), name)
	}
	for _, spoil := range []func(r *tensor.Recurrent){
		func(r *tensor.Recurrent) { r.C0 = nil }, func(r *tensor.Recurrent) { r.BiasIH = nil },
	} {
		r := good()
		spoil(r)
		_, err := r.Forward(true)
		require.ErrorIs(t, err, tensor.ErrReleased)
	}
	r := good()
	s, err := r.Forward(true)
	require.NoError(t, err)
	defer s.Release()
	_, err = gradients.Recurrent(r, s, half, nil, nil, training.Wants{}, false)
	require.Equal(t, refusal("dtype"), kindOf(err))
	r.X = nil
	_, err = gradients.Recurrent(r, s, nil, nil, nil, training.Wants{WeightIH: true}, false)
	require.ErrorIs(t, err, tensor.ErrReleased)
	_, err = gradients.Recurrent(r, &tensor.RecurrentState{}, nil, nil, nil, training.Wants{}, false)
	require.ErrorIs(t, err, tensor.ErrReleased)
	require.Greater(t, b.allocated(), before)
}

func TestRecurrent_RefusesOperandsOnAnotherDevice(t *testing.T) {
	b, _ := onSim(t)
	other, _ := onSim(t)
	r, there := recurrentLayer(t, b, false, 3, 2, 4, 5, zeros(t, b)), recurrentLayer(t, other, false, 3, 2, 4, 5, zeros(t, other))
	before := b.allocated() + other.allocated()
	for name, operand := range map[string][2]**tensor.Tensor{
		"state": {&r.H0, &there.H0}, "cell": {&r.C0, &there.C0}, "inputs' weight": {&r.WeightIH, &there.WeightIH},
		"state's weight": {&r.WeightHH, &there.WeightHH}, "bias": {&r.BiasIH, &there.BiasIH}, "state's bias": {&r.BiasHH, &there.BiasHH},
	} {
		*operand[0], *operand[1] = *operand[1], *operand[0]
		_, err := r.Forward(true)
		*operand[0], *operand[1] = *operand[1], *operand[0]
		var device *tensor.DeviceError
		require.ErrorAs(t, err, &device, name)
		typed(t, "Recurrent", err)
		require.Equal(t, before, b.allocated()+other.allocated(), name)
	}
}

func TestRecurrentBackward_RefusesGradientsThatAreNotThoseOfTheResults(t *testing.T) {
	b, _ := onSim(t)
	other, _ := onSim(t)
	for _, gru := range []bool{false, true} {
		r := recurrentLayer(t, b, gru, 3, 2, 4, 5, zeros(t, b))
		s, err := r.Forward(true)
		require.NoError(t, err)
		wrong := map[refusal]*tensor.Tensor{
			"shape":  must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1, 5)),
			"dtype":  must(t)(tensor.Zeros(b.Exec, tensor.Float64, 2, 5)),
			"device": must(t)(tensor.Zeros(other.Exec, tensor.Float32, 2, 5)),
		}
		before := b.allocated()
		for want, g := range wrong {
			for i := range 3 {
				grads := make(tensors, 3)
				grads[i] = g
				_, err := gradients.Recurrent(r, s, grads[0], grads[1], grads[2], training.Wants{}, true)
				typed(t, "Recurrent", err)
				if want != "device" {
					require.Equal(t, want, kindOf(err), "gradient %d", i)
				}
				require.Equal(t, before, b.allocated())
			}
		}
		require.Zero(t, s.Gates.Version(), "nothing was written")
		s.Release()
	}
}

func TestRecurrent_ReadsNoStrideThatLeadsNowhere(t *testing.T) {
	b := onHost(t)
	for _, size := range [][4]int{{3, 1, 5, 4}, {1, 2, 5, 4}, {3, 1, 1, 1}, {3, 2, 1, 4}, {2, 1, 4, 1}, {3, 0, 5, 4}} {
		for _, gru := range []bool{false, true} {
			gen := tensor.NewGenerator(1)
			packed := recurrentLayer(t, b, gru, size[0], size[1], size[2], size[3], func(shape ...int) *tensor.Tensor {
				return must(t)(tensor.Uniform(b.Exec, gen, -1, 1, tensor.Float32, shape...))
			})
			dy := must(t)(tensor.Uniform(b.Exec, gen, -1, 1, tensor.Float32, size[0], size[1], size[3]))
			want := recurrentBits(t, packed, dy)
			for name, view := range odd {
				r := *packed
				for _, x := range []**tensor.Tensor{&r.X, &r.H0, &r.C0, &r.WeightIH, &r.WeightHH, &r.BiasIH, &r.BiasHH} {
					if *x != nil {
						*x = view(t, *x)
					}
				}
				require.Equal(t, want, recurrentBits(t, &r, view(t, dy)), "%v of GRU %v, strides %s", size, gru, name)
			}
		}
	}
}

// recurrentBits are the results and all gradients of a layer.
func recurrentBits(t *testing.T, r *tensor.Recurrent, dy *tensor.Tensor) (all [][]uint64) {
	s, err := r.Forward(true)
	require.NoError(t, err)
	defer s.Release()
	g, err := gradients.Recurrent(r, s, dy, nil, nil, training.Wants{X: true, WeightIH: true, WeightHH: true, Bias: true}, false)
	require.NoError(t, err)
	defer g.Release()
	for _, x := range []*tensor.Tensor{s.Output, s.H, s.C, g.X, g.H0, g.C0, g.WeightIH, g.WeightHH, g.BiasIH, g.BiasHH} {
		if x != nil {
			all = append(all, bits(values(t, x)))
		}
	}
	return all
}
