package autograd_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
)

// tableRanges says where the operations of elementwise_gen_test.go are tried.
var tableRanges = map[string][2]float64{}

// tableCases are the cases of an operation for finite differences: two inputs are also broadcast, and of one the other is a constant.
func tableCases(op string) []gradientCase {
	f := func(v vars) *autograd.Variable { return tableOperations[op](v) }
	into := func(x []float64) {
		r := tableRanges[op]
		for i := range x {
			x[i] = r[0] + (r[1]-r[0])*fraction(x[i])
		}
	}
	if !tableOfTwo[op] {
		return []gradientCase{{op: op, f: f, shapes: [][]int{{8}}, prep: into}}
	}
	return []gradientCase{
		{op: op, f: f, shapes: [][]int{{2, 3}, {2, 3}}, prep: into},
		{op: op, note: "broadcast", f: f, shapes: [][]int{{2, 1, 3}, {4, 1}}, prep: into},
	}
}

// fraction brings a random number into 0..1.
func fraction(x float64) float64 { return 0.5 + 0.5*x/(1+abs(x)) }

func abs(x float64) float64 { return max(x, -x) }

// TestElementwise_IsThatOfPyTorch compares the operations of the table with what testdata/elementwise.py computed, at edges too.
func TestElementwise_IsThatOfPyTorch(t *testing.T) {
	checkFile(t, "elementwise.json", onHost, tableOperations, func(out *autograd.Variable) *autograd.Variable { return out })
	text, err := os.ReadFile("testdata/elementwise.json")
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(text, &cases))
	for op := range tableOperations {
		require.True(t, slices.ContainsFunc(cases, func(c golden) bool { return c.Name == op }), "%s: run testdata/elementwise.py", op)
	}
}
