package amp_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// manual are the types to which a program without autocast would convert the arguments of an operation of each class.
func manual(c amp.Class, lower tensor.DType) tensor.DType {
	switch c {
	case amp.LowerPrecision:
		return lower
	case amp.Float32, amp.Float32Result, amp.Float32Inside:
		return tensor.Float32
	}
	return 0
}

// bits are the elements as they lie in memory, so that NaN and the sign of 0 count.
func bits(t *testing.T, x *tensor.Tensor) any {
	t.Helper()
	require.NotNil(t, x)
	var err error
	var data any
	switch x.DType() {
	case tensor.Float16:
		data, err = tensor.ToSlice[tensor.Float16Bits](x)
	case tensor.BFloat16:
		data, err = tensor.ToSlice[tensor.BFloat16Bits](x)
	default:
		var f []float32
		f, err = tensor.ToSlice[float32](x)
		words := make([]uint32, len(f))
		for i, v := range f {
			words[i] = math.Float32bits(v)
		}
		data = words
	}
	require.NoError(t, err)
	return data
}

func TestAutocast_EqualsTheManuallyCastCallBitForBit(t *testing.T) {
	for op, run := range runs {
		class, _ := amp.ClassOf(op)
		for _, lower := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
			to := manual(class, lower)
			if to == 0 {
				continue
			}
			t.Run(op+" "+lower.String(), func(t *testing.T) {
				r := onHost(t)
				// Arguments in the type that the operation is not to run in.
				from := map[bool]tensor.DType{true: lower, false: tensor.Float32}[to == tensor.Float32]
				args := []*tensor.Tensor{r.random(1, from, 4, 4), r.random(2, from, 4, 4), r.random(3, from, 4, 4)}
				type prepare func(*autograd.Variable) *autograd.Variable
				compute := func(g *autograd.Graph, prepare prepare) (leaves vars, out *autograd.Variable) {
					var in vars
					for _, a := range args {
						leaf := g.Input(a, autograd.RequiresGrad())
						leaves, in = append(leaves, leaf), append(in, prepare(leaf))
					}
					return leaves, run(r, in).Keep()
				}
				auto := r.graph(amp.Autocast(lower))
				got, y := compute(auto, func(v *autograd.Variable) *autograd.Variable { return v })
				hand := r.graph()
				want, z := compute(hand, func(v *autograd.Variable) *autograd.Variable { return v.To(to) })
				require.Equal(t, to, y.DType())
				require.Equal(t, bits(t, valueOf(t, z)), bits(t, valueOf(t, y)))

				seed := r.random(4, to, y.Shape()...)
				require.NoError(t, y.Backward(autograd.WithGradient(seed)))
				require.NoError(t, z.Backward(autograd.WithGradient(seed)))
				for i := range want {
					if want[i].Grad() == nil {
						require.Nil(t, got[i].Grad())
						continue
					}
					require.Equal(t, from, got[i].Grad().DType(), "gradients have the type of their leaf")
					require.Equal(t, bits(t, want[i].Grad()), bits(t, got[i].Grad()))
				}
			})
		}
	}
}

func TestAutocast_LeavesDoublesAndIntegersAlone(t *testing.T) {
	r := onHost(t)
	g := r.graph(amp.Autocast(tensor.Float16))
	d := g.Input(r.full(2, tensor.Float64, 2, 2))
	require.Equal(t, tensor.Float64, d.MatMul(d).DType())
	require.Equal(t, tensor.Float64, d.Exp().DType())
	require.Equal(t, tensor.Int64, g.Input(r.full(2, tensor.Int64, 2)).Sum(nil, false).DType())
	require.NoError(t, g.Err())

	d.MatMul(g.Input(r.full(2, tensor.Float16, 2, 2)))
	var mixed *tensor.DTypeError
	require.ErrorAs(t, g.Err(), &mixed, "a product of float64 and float16 fails as without autocast")
}

func TestAutocast_ToTheDefaultOfTheDevice(t *testing.T) {
	require.Equal(t, tensor.Float16, amp.DefaultDType(device.CUDA))
	require.Equal(t, tensor.Float16, amp.DefaultDType(device.Sim))
	require.Equal(t, tensor.BFloat16, amp.DefaultDType(device.Host))
	for _, r := range []*rig{onHost(t), onSim(t)} {
		g := r.graph(amp.Autocast(amp.DeviceDefault))
		x := g.Input(r.full(1, tensor.Float32, 2, 2))
		want := amp.DefaultDType(r.dev.ID().Kind)
		require.Equal(t, want, x.MatMul(x).DType())
		dt, on := amp.Active(g)
		require.Equal(t, want, dt)
		require.True(t, on)
	}
}

func TestAutocast_ToATypeThatIsNoLowerPrecision(t *testing.T) {
	r := onHost(t)
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32} {
		var wrong *amp.AutocastError
		g := r.graph(amp.Autocast(dt))
		g.Input(r.full(1, tensor.Float32)).Neg()
		require.ErrorAs(t, g.Err(), &wrong)
		require.Equal(t, dt, wrong.DType)
		require.ErrorContains(t, g.Err(), "autocast_test.go", "the error knows where the program ran into it")

		g = r.graph()
		amp.Region(g, amp.DType(dt), func() {})
		require.ErrorAs(t, g.Err(), &wrong)

		g = r.graph(amp.Autocast(dt, amp.Enabled(false)))
		require.Equal(t, tensor.Float32, g.Input(r.full(1, tensor.Float32)).Neg().DType())
		require.NoError(t, g.Err(), "what is off is not looked at")
	}
}

func TestRegion_NestsAndPutsBackWhatWas(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	x := g.Input(r.full(1, tensor.Float32, 2, 2))
	product := func() tensor.DType { return x.MatMul(x).DType() }
	is := func(dt tensor.DType, on bool) {
		t.Helper()
		gotDT, gotOn := amp.Active(g)
		require.Equal(t, on, gotOn)
		require.Equal(t, dt, gotDT)
		if on {
			require.Equal(t, dt, product())
		} else {
			require.Equal(t, tensor.Float32, product())
		}
	}
	is(tensor.BFloat16, false) // the host's default, off
	amp.Region(g, amp.DType(tensor.Float16), func() {
		is(tensor.Float16, true)
		amp.Region(g, amp.Enabled(false), func() {
			is(tensor.Float16, false)
			amp.Region(g, nil, func() { is(tensor.Float16, true) }) // on again, with the type of the region around
			is(tensor.Float16, false)
		})
		is(tensor.Float16, true)
		amp.Region(g, amp.Options(amp.DType(tensor.BFloat16), amp.CacheEnabled(false)), func() { is(tensor.BFloat16, true) })
		is(tensor.Float16, true)
		require.Panics(t, func() { amp.Region(g, amp.Enabled(false), func() { panic("in the region") }) })
		is(tensor.Float16, true)
	})
	is(tensor.BFloat16, false)
	require.NoError(t, g.Err())
}

func TestRegion_OffInsideAutocastKeepsTheTypesOfItsArguments(t *testing.T) {
	r := onHost(t)
	g := r.graph(amp.Autocast(tensor.Float16))
	half := g.Input(r.full(1, tensor.Float16, 2, 2))
	amp.Region(g, amp.Enabled(false), func() {
		require.Equal(t, tensor.Float16, half.Exp().DType())
		require.Equal(t, tensor.Float16, half.Sum(nil, false).DType())
		g.Input(r.full(1, tensor.Float32, 2, 2)).MatMul(half)
		require.Error(t, g.Err(), "a product of two types fails as without autocast")
	})
}

func TestCheckpoint_KeepsAutocastInItsSecondRun(t *testing.T) {
	r := onHost(t)
	w := r.param(0.5, 4, 4)
	x := r.random(1, tensor.Float32, 4, 4)
	var seen []tensor.DType
	layer := func(in vars) *autograd.Variable {
		y := in[0].MatMul(in[0].Graph().Param(w))
		seen = append(seen, y.DType())
		return y.ReLU()
	}
	gradient := func(checkpoint bool) any {
		w.ZeroGrad()
		g := r.graph(amp.Autocast(tensor.Float16))
		v := g.Input(x, autograd.RequiresGrad())
		var y *autograd.Variable
		if checkpoint {
			y = autograd.Checkpoint(layer, v)
		} else {
			y = layer(vars{v})
		}
		require.NoError(t, y.Sum(nil, false).Backward())
		return bits(t, w.Grad())
	}
	want := gradient(false)
	require.Equal(t, want, gradient(true))
	require.Equal(t, []tensor.DType{tensor.Float16, tensor.Float16, tensor.Float16}, seen)
}

func TestCastInputs_RunsInTheGivenTypeWithoutAutocast(t *testing.T) {
	r := onHost(t)
	double := func(in vars) *autograd.Variable {
		_, on := amp.Active(in[0].Graph())
		require.False(t, on)
		return in[0].MatMul(in[1])
	}
	g := r.graph(amp.Autocast(tensor.Float16))
	a := g.Input(r.full(2, tensor.Float16, 2, 2), autograd.RequiresGrad())
	b := g.Input(r.full(3, tensor.Float32, 2, 2))
	out := amp.CastInputs(tensor.Float32, double, a, b)
	require.Equal(t, tensor.Float32, out.DType())
	require.NoError(t, out.Sum(nil, false).Backward())
	require.Equal(t, tensor.Float16, a.Grad().DType())
	_, on := amp.Active(g)
	require.True(t, on)

	ints := g.Input(r.full(3, tensor.Int64, 2))
	amp.CastInputs(tensor.Float32, func(in vars) *autograd.Variable {
		require.Equal(t, tensor.Int64, in[0].DType())
		require.Nil(t, in[1])
		return in[0]
	}, ints, nil)

	off := r.graph()
	x := off.Input(r.full(2, tensor.Float32, 2, 2))
	same := amp.CastInputs(tensor.Float16, double, x, x)
	require.Equal(t, tensor.Float32, same.DType(), "where autocast is off, inputs stay as they are")
	require.Nil(t, amp.CastInputs(tensor.Float16, func(vars) *autograd.Variable { return nil }, nil))
}
