package autograd_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

var interpolations = map[string]autograd.Interpolation{
	"linear": autograd.Linear, "lower": autograd.Lower, "higher": autograd.Higher, "nearest": autograd.NearestRank, "midpoint": autograd.Midpoint,
}

func TestMedian_OfNothing(t *testing.T) {
	r := onHost(t)
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Uint8, tensor.Bool} {
		g := r.graph()
		g.Zeros(dt, 0, 2).Median()
		var shape *tensor.ShapeError
		require.ErrorAs(t, g.Err(), &shape)
		require.ErrorContains(t, g.Err(), "median: [0, 2]: there is no median of nothing, which "+dt.String()+" cannot say")
		g.Release()
	}
	g := r.graph()
	defer g.Release()
	require.True(t, math.IsNaN(valuesOf(t, g.Zeros(tensor.Float16, 0, 2).Median())[0]))
}

func init() {
	stacked := func(a, b variable) variable { return autograd.Stack(vars{a, b}, 0) }
	functions := map[string]func(v vars) variable{
		"kthvalue": func(v vars) variable { return firstOf(v[0].KthValue(2, 1, false)) }, "median_dim": func(v vars) variable { return firstOf(v[0].MedianDim(1, false)) },
		"nanmedian_dim": func(v vars) variable { return firstOf(v[0].NanMedianDim(1, false)) }, "mode_dim": func(v vars) variable { return firstOf(v[0].ModeDim(1, false)) },
		"cummax": func(v vars) variable { return firstOf(v[0].CumMax(1)) }, "cummin": func(v vars) variable { return firstOf(v[0].CumMin(1)) },
		"median": func(v vars) variable { return v[0].Median() }, "quantile 1": func(v vars) variable { return v[0].Quantile(1, 0, true, autograd.Linear) },
		"quantile half": func(v vars) variable { return v[0].Quantile(0.5, 0, false, autograd.Linear) },
		"logcumsumexp":  func(v vars) variable { return v[0].LogCumSumExp(1) }, "nansum": func(v vars) variable { return v[0].NanSum([]int{0, 1}, false) },
		"nanmean":  func(v vars) variable { return v[0].NanMean([]int{1}, false) },
		"var_mean": func(v vars) variable { return stacked(v[0].VarMean([]int{1}, 1, false)) }, "std_mean": func(v vars) variable { return stacked(v[0].StdMean([]int{1}, 1, false)) },
	}
	for name, how := range interpolations {
		functions["quantile "+name] = func(v vars) variable { return v[0].Quantile(0.3, 1, false, how) }
		functions["nanquantile "+name] = func(v vars) variable { return v[0].NanQuantile(0.3, 1, false, how) }
	}
	for op, name := range map[string]string{
		"kthvalue": "kthvalue", "median": "median_dim", "nanmedian": "nanmedian_dim", "mode": "mode_dim", "cummax": "cummax", "cummin": "cummin", "quantile": "quantile linear",
		"nanquantile": "nanquantile midpoint", "logcumsumexp": "logcumsumexp", "nansum": "nansum", "nanmean": "nanmean",
	} {
		composedCases = append(composedCases, gradientCase{op: op, f: functions[name], shapes: [][]int{{2, 5}}})
	}
	composed(functions, gradientCase{op: "median", note: "of all", f: functions["median"], shapes: [][]int{{2, 3}}})
}

func TestHistc_CountsAsPyTorchDoes(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := autograd.FromSlice(g, []float64{1, 2, 1, 5, 3, 3.5, -1, 5})
	require.Equal(t, []float64{0, 2, 1, 2}, valuesOf(t, x.Histc(4, 0, 4)), "torch.histc(x, 4, 0, 4)")
	require.Equal(t, []float64{1, 3, 4}, valuesOf(t, x.Histc(3, 0, 0)), "of the least to the greatest")
	require.Equal(t, []float64{0, 3, 0}, valuesOf(t, g.Full(2, tensor.Float64, 3).Histc(3, 0, 0)), "of a single value")
	require.Equal(t, []float64{0, 0}, valuesOf(t, g.Zeros(tensor.Float64, 0).Histc(2, 0, 0)))
	require.Equal(t, []float64{1, 1, 0}, valuesOf(t, x.Narrow(0, 0, 3).IsClose(autograd.FromSlice(g, []float64{1, 2, 1.5}), 1e-5, 0, false)))
	require.NoError(t, g.Err())
	x.Histc(0, 0, 1)
	require.ErrorContains(t, g.Err(), "histc(float64[8])")
}
