package tensor_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestLinspaceAndLogspace_GiveWhatPyTorchGives(t *testing.T) {
	var cases []struct {
		Start, End float64
		Steps      int
		Base       float64
		DType      string
		Want       []float64
	}
	readGolden(t, "ranges.json", &cases)
	require.Greater(t, len(cases), 50)
	b := onHost(t)
	for _, c := range cases {
		dt := typeNamed(t, c.DType)
		x, err := tensor.Linspace(b.Exec, c.Start, c.End, c.Steps, dt)
		if c.Base != 0 {
			x.Release()
			x, err = tensor.Logspace(b.Exec, c.Start, c.End, c.Steps, c.Base, dt)
		}
		x = must(t)(x, err)
		require.Equal(t, dt, x.DType())
		tol := 1e-15
		if !dt.IsFloat() {
			tol = 0
		}
		requireClose(t, c.Want, values(t, x), tol)
	}
}

func TestLinspaceAndLogspace_RefuseWhatTheyCannotDo(t *testing.T) {
	b := onHost(t)
	for _, c := range []struct {
		start, end float64
		steps      int
		dt         tensor.DType
		want       refusal
	}{
		{0, 1, -1, tensor.Float32, "value"}, {0, 1, math.MaxInt, tensor.Float32, "value"}, {0, 1, 3, tensor.Bool, "dtype"}, {0, math.NaN(), 3, tensor.Int32, "value"},
		{math.Inf(1), 2, 3, tensor.Int64, "value"}, {0, 1, 3, 0, "dtype"},
	} {
		_, err := tensor.Linspace(b.Exec, c.start, c.end, c.steps, c.dt)
		require.Equal(t, c.want, kindOf(err), "%v", c)
		_, err = tensor.Logspace(b.Exec, c.start, c.end, c.steps, 10, c.dt)
		require.Equal(t, c.want, kindOf(err), "%v", c)
	}
	_, err := tensor.Logspace(b.Exec, 0, 30, 2, 10, tensor.Int64)
	require.Equal(t, refusal("value"), kindOf(err), "10^30 is beyond int64")
}

func TestRandInt_DrawsEachNumberEquallyOften(t *testing.T) {
	b := onHost(t)
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32, tensor.Float32, tensor.Float16} {
		counts := map[float64]int{}
		for _, v := range values(t, must(t)(tensor.RandInt(b.Exec, tensor.NewGenerator(5), -2, 3, dt, 100, 50))) {
			counts[v]++
		}
		require.Len(t, counts, 5)
		for v := -2.; v < 3; v++ {
			require.InDelta(t, 1000, counts[v], 120, "%v of %s", v, dt) // four standard deviations
		}
	}
	bits := values(t, must(t)(tensor.RandInt(b.Exec, tensor.NewGenerator(5), 0, 2, tensor.Bool, 1000)))
	require.InDelta(t, 500, sum(bits), 70)
	large, err := tensor.ToSlice[int64](must(t)(tensor.RandInt(b.Exec, tensor.NewGenerator(5), -10, math.MaxInt64-10, tensor.Int64, 1000)))
	require.NoError(t, err)
	require.GreaterOrEqual(t, slices.Min(large), int64(-10))
	below := 0
	for _, v := range large {
		if v < math.MaxInt64/2 {
			below++
		}
	}
	require.InDelta(t, 500, below, 70)
	slices.Sort(large)
	require.Len(t, slices.Compact(large), 1000)
	at, err := tensor.ToSlice[int64](must(t)(tensor.RandInt(b.Exec, tensor.NewGenerator(5), math.MaxInt64-3, math.MaxInt64, tensor.Int64, 50)))
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt64-3), slices.Min(at), "no digits are lost")
	require.Equal(t, int64(math.MaxInt64-1), slices.Max(at))
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func TestRandIntAndRandPermOn_RefuseWhatTheyCannotDo(t *testing.T) {
	b, gen := onHost(t), tensor.NewGenerator(1)
	for _, c := range []struct {
		lo, hi int64
		dt     tensor.DType
		want   refusal
	}{
		{1, 1, tensor.Int64, "value"}, {0, 257, tensor.Uint8, "value"}, {-1, 2, tensor.Uint8, "value"}, {0, 3, tensor.Bool, "value"}, {0, 65506, tensor.Float16, "value"},
		{math.MinInt64, math.MaxInt64, tensor.Int64, "value"}, {0, 2, 0, "dtype"},
	} {
		_, err := tensor.RandInt(b.Exec, gen, c.lo, c.hi, c.dt, 3)
		require.Equal(t, c.want, kindOf(err), "%v", c)
	}
	_, err := tensor.RandInt(b.Exec, gen, 0, 2, tensor.Int64, -3)
	require.Equal(t, refusal("shape"), kindOf(err))
	for _, err := range []error{failure(tensor.RandInt(b.Exec, nil, 0, 2, tensor.Int64)), failure(tensor.RandPermOn(b.Exec, nil, 3)), failure(tensor.RandPermOn(b.Exec, gen, -3))} {
		require.Equal(t, refusal("value"), kindOf(err))
	}
}

func failure(_ *tensor.Tensor, err error) error { return err }

func TestRandPermOn_IsAPermutation(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.RandPermOn(b.Exec, tensor.NewGenerator(3), 100))
	require.Equal(t, tensor.Int64, x.DType())
	got := values(t, x)
	require.NotEqual(t, 0., got[0]+math.Abs(got[1]-1), "not in order")
	slices.Sort(got)
	for i, v := range got {
		require.EqualValues(t, i, v)
	}
	require.Zero(t, must(t)(tensor.RandPermOn(b.Exec, tensor.NewGenerator(3), 0)).Len())
}

func TestMultinomial_DrawsByProbability(t *testing.T) {
	b := onHost(t)
	p := must(t)(tensor.FromSlice(b.Exec, []float32{1, 0, 3, 0, 4, 1, 1, 1}, 2, 4))
	x := must(t)(p.Multinomial(tensor.NewGenerator(9), 4000, true))
	require.Equal(t, tensor.Int64, x.DType())
	require.Equal(t, tensor.Shape{2, 4000}, x.Shape())
	counts := [2][4]int{}
	for i, v := range values(t, x) {
		counts[i/4000][int(v)]++
	}
	for i, want := range []int{1000, 0, 3000, 0, 2286, 571, 571, 571} {
		require.InDelta(t, want, counts[i/4][i%4], 130, "%d", i)
		require.Equal(t, want == 0, counts[i/4][i%4] == 0, "%d", i)
	}
	first := [4]int{}
	rows := must(t)(must(t)(p.Narrow(0, 1, 1)).Expand(2000, 4))
	for i, v := range values(t, must(t)(rows.Multinomial(tensor.NewGenerator(2), 3, false))) {
		if i%3 == 0 {
			first[int(v)]++
		}
	}
	for i, want := range []int{1143, 286, 286, 286} {
		require.InDelta(t, want, first[i], 90, "the first without replacement is drawn as with it: %d", i)
	}
	row := must(t)(p.Select(0, 0))
	for seed := range uint64(20) {
		got := values(t, must(t)(row.Multinomial(tensor.NewGenerator(seed), 2, false)))
		slices.Sort(got)
		require.Equal(t, []float64{0, 2}, got, "what has no probability is not drawn before what has some")
		got = values(t, must(t)(row.Multinomial(tensor.NewGenerator(seed), 4, false)))
		slices.Sort(got)
		require.Equal(t, []float64{0, 1, 2, 3}, got, "each once")
	}
}

func TestMultinomial_RefusesWhatIsNoDistribution(t *testing.T) {
	b := onHost(t)
	for _, c := range []struct {
		data []float64
		text string
	}{
		{[]float64{1, -1}, "negative"}, {[]float64{1, math.NaN()}, "NaN"}, {[]float64{1, math.Inf(1)}, "infinite"}, {[]float64{0, 0}, "sum to 0"},
	} {
		x := must(t)(tensor.FromSlice(b.Exec, c.data))
		for _, replacement := range []bool{true, false} {
			before := b.allocated()
			_, err := x.Multinomial(tensor.NewGenerator(1), 1, replacement)
			require.Equal(t, refusal("value"), kindOf(err))
			require.ErrorContains(t, err, c.text)
			require.Equal(t, before, b.allocated())
		}
	}
	none := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 0, 4))
	require.Equal(t, tensor.Shape{0, 3}, must(t)(none.Multinomial(tensor.NewGenerator(1), 3, true)).Shape())
	require.Equal(t, tensor.Shape{0, 3}, must(t)(none.Multinomial(tensor.NewGenerator(1), 3, false)).Shape())
}
