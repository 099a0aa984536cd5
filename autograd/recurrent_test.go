package autograd_test

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/gradcheck"
)

func init() { gradientCases = append(gradientCases, recurrentCases...) }

// recurrentCases are uses of the recurrent layers.
var recurrentCases = []gradientCase{
	{op: "lstm", f: lstm(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {2, 3}, {12, 2}, {12, 3}}},
	{op: "lstm", note: "reverse, one step", f: lstm(true), shapes: [][]int{{1, 2, 2}, {2, 3}, {2, 3}, {12, 2}, {12, 3}}},
	{op: "lstm_bias", f: lstm(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {2, 3}, {12, 2}, {12, 3}, {12}, {12}}},
	{op: "lstm_bias", note: "reverse", f: lstm(true), shapes: [][]int{{4, 1, 3}, {1, 2}, {1, 2}, {8, 3}, {8, 2}, {8}, {8}}},
	{op: "lstm_bias", note: "output alone", f: func(v vars) *autograd.Variable {
		out, _, _ := v[0].LSTM(v[1], v[2], autograd.RecurrentWeights{IH: v[3], HH: v[4], BiasIH: v[5], BiasHH: v[6]}, false)
		return out
	}, shapes: [][]int{{3, 2, 2}, {2, 2}, {2, 2}, {8, 2}, {8, 2}, {8}, {8}}},
	{op: "lstm_bias", note: "cell alone", f: func(v vars) *autograd.Variable {
		_, _, c := v[0].LSTM(v[1], v[2], autograd.RecurrentWeights{IH: v[3], HH: v[4], BiasIH: v[5], BiasHH: v[6]}, false)
		return c
	}, shapes: [][]int{{3, 2, 2}, {2, 2}, {2, 2}, {8, 2}, {8, 2}, {8}, {8}}},
	{op: "gru", f: gru(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {9, 2}, {9, 3}}},
	{op: "gru", note: "reverse", f: gru(true), shapes: [][]int{{3, 1, 2}, {1, 2}, {6, 2}, {6, 2}}},
	{op: "gru_bias", f: gru(false), shapes: [][]int{{3, 2, 2}, {2, 3}, {9, 2}, {9, 3}, {9}, {9}}},
	{op: "gru_bias", note: "reverse", f: gru(true), shapes: [][]int{{4, 2, 1}, {2, 2}, {6, 1}, {6, 2}, {6}, {6}}},
	{op: "gru_bias", note: "turned", f: func(v vars) *autograd.Variable {
		out, _ := v[0].Transpose(0, 1).GRU(v[1].T(), autograd.RecurrentWeights{IH: v[2].T(), HH: v[3].T(), BiasIH: v[4], BiasHH: v[5]}, false)
		return out.Transpose(0, 1)
	}, shapes: [][]int{{2, 3, 2}, {3, 2}, {2, 9}, {3, 9}, {9}, {9}}},
}

// lstm and gru join all results, so that each has a gradient.
func lstm(reverse bool) gradcheck.Func {
	return func(v vars) *autograd.Variable {
		w := autograd.RecurrentWeights{IH: v[3], HH: v[4]}
		if len(v) > 5 {
			w.BiasIH, w.BiasHH = v[5], v[6]
		}
		out, h, c := v[0].LSTM(v[1], v[2], w, reverse)
		return autograd.Cat(vars{out.Flatten(0, -1), h.Flatten(0, -1), c.Flatten(0, -1)}, 0)
	}
}

func gru(reverse bool) gradcheck.Func {
	return func(v vars) *autograd.Variable {
		w := autograd.RecurrentWeights{IH: v[2], HH: v[3]}
		if len(v) > 4 {
			w.BiasIH, w.BiasHH = v[4], v[5]
		}
		out, h := v[0].GRU(v[1], w, reverse)
		return autograd.Cat(vars{out.Flatten(0, -1), h.Flatten(0, -1)}, 0)
	}
}
