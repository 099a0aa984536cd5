package kerneltest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
)

func TestRound_IsTheRoundingOfTheProcessor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		v := math.Float64frombits(rng.Uint64())
		if rng.IntN(2) == 0 {
			v = math.Ldexp(rng.Float64()-0.5, rng.IntN(300)-160)
		}
		want := float64(float32(v))
		if math.IsNaN(v) {
			require.True(t, math.IsNaN(round(dtype.Float32, v)))
			continue
		}
		require.Equal(t, want, round(dtype.Float32, v), "%g", v)
		if f := float32(v); float64(f) == v || f != f {
			continue
		}
		half := float64(float16.Fromfloat32(float32(want)).Float32()) // of a float32: one rounding
		require.Equal(t, half, round(dtype.Float16, want), "%g", want)
	}
}

func TestEncode_IsTheInverseOfDecode(t *testing.T) {
	for _, d := range []dtype.DType{dtype.Float16, dtype.BFloat16} {
		for b := range 1 << 16 {
			in := []byte{byte(b), byte(b >> 8)}
			v := decode(in, d)
			if math.IsNaN(v.f) {
				require.True(t, math.IsNaN(decode(encode(nil, d, v), d).f))
				continue
			}
			require.Equal(t, in, encode(nil, d, v), "%s %#x", d, b)
			require.Equal(t, v.f, round(d, v.f))
		}
	}
	for _, d := range dtype.All() {
		for _, v := range edges(d) {
			require.Len(t, encode(nil, d, v), d.Size())
			if !math.IsNaN(v.f) {
				require.Equal(t, v, decode(encode(nil, d, v), d), d.String())
			}
		}
	}
}

func TestNear_AllowsHalfAnUlpAndTheOperationsOwn(t *testing.T) {
	up := func(f float64) float64 { return float64(math.Nextafter32(float32(f), math.MaxFloat32)) }
	one := exact(1)
	require.True(t, near(dtype.Float32, one, 1, 0))
	require.False(t, near(dtype.Float32, one, up(1), 0))
	require.True(t, near(dtype.Float32, one, up(1), 1))
	require.False(t, near(dtype.Float32, one, up(up(up(1))), 1))
	require.True(t, near(dtype.Float32, scaled(1, 100), up(up(up(1))), 1), "terms of size 100 have larger errors")
	require.False(t, near(dtype.Float16, exact(1+0x1p-11+0x1p-15), 1, 1), "half precision is rounded once")
	require.True(t, near(dtype.Float16, exact(1+0x1p-11+0x1p-15), 1+0x1p-10, 1))
	nan, inf := math.NaN(), math.Inf(1)
	require.True(t, near(dtype.Float32, exact(nan), nan, 0))
	require.False(t, near(dtype.Float32, exact(nan), 1, 1000))
	require.False(t, near(dtype.Float32, one, nan, 1000))
	require.False(t, near(dtype.Float32, exact(inf), -inf, 1000))
	require.False(t, near(dtype.Float32, exact(inf), math.MaxFloat32, 1000))
	require.False(t, near(dtype.Float32, exact(1e30), inf, 1000))
	require.True(t, near(dtype.Float32, exact(largest(dtype.Float32)), inf, 1))
}

// TestCompare_NoticesEveryKindOfMistake changes an image in which all is right, one byte at a time.
func TestCompare_NoticesEveryKindOfMistake(t *testing.T) {
	m := newMaker(op.Add, dtype.Float32)
	reference := references[op.Add]
	c := m.place(reference, scalars{f: floats8(1)}, 0, []int{3, 4}, [4]layout{gapped, transposed, backwards})
	for _, in := range c.in {
		in.fill(m.within(dtype.Float32, 1, 2))
	}
	for p := range c.want[0] {
		c.want[0][p] = exact(c.in[0].values[p].f + c.in[1].values[p].f)
	}
	before := c.layOut()
	after := bytes.Clone(before)
	out := c.out[0]
	outputs := map[int]bool{}
	each(out.shape, func(p int, index []int) {
		at := out.address(index)
		encode(after[at:][:0], out.dtype, floatValue(round(out.dtype, c.want[0][p].f)))
		for b := range 4 {
			outputs[at+b] = true
		}
	})
	require.NoError(t, c.compare(before, after, 1))
	for i := range after {
		changed := bytes.Clone(after)
		changed[i] ^= 0xff
		if outputs[i] && i%4 == out.place%4 {
			continue // the last bits of an element are within the tolerance
		}
		require.Error(t, c.compare(before, changed, 1), "byte %d", i)
	}
}

func TestLayouts_PlaceElementsApartUnlessTheyBroadcast(t *testing.T) {
	for l := contiguous; l < layouts; l++ {
		for _, shape := range shapes {
			a := newTensor(dtype.Float32, l, shape...)
			seen := map[int]bool{}
			each(shape, func(_ int, index []int) {
				e := a.element(index)
				require.True(t, e >= 0 && e < a.span, "%s: element %d of %d", a, e, a.span)
				require.False(t, seen[e] && !l.broadcasts(), "%s: two elements at %d", a, e)
				seen[e] = true
			})
		}
	}
	require.Equal(t, []int{0, 0}, newTensor(dtype.Float32, constant, 3, 4).strides)
	require.Equal(t, []int{0, 1}, newTensor(dtype.Float32, outer, 3, 4).strides)
	require.Equal(t, []int{1, 0}, newTensor(dtype.Float32, inner, 3, 4).strides)
	require.Negative(t, newTensor(dtype.Float32, backwards, 3, 4).strides[1])
}

func TestCases_EveryOperationHasThem(t *testing.T) {
	for id := op.Invalid + 1; id.Valid(); id++ {
		for _, d := range id.Types() {
			m, n := newMaker(id, d), 0
			m.every, m.small = 1<<30, true
			for range m.cases() {
				n++
			}
			require.Positive(t, n, "%s of %s", id, d)
		}
	}
}

func TestCompensated_SumsWhatPlainSumsLose(t *testing.T) {
	var c compensated
	for _, v := range []float64{1, 1e100, 1, -1e100} {
		c.add(v)
	}
	require.Equal(t, 2.0, c.value())
	c.add(math.Inf(1))
	require.Equal(t, math.Inf(1), c.value())
}

func TestEach_IgnoresNilOptions(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	require.NoError(t, Each(dev, op.Neg, dtype.Float32, func(int, func() error) error { return nil }, nil))
}
