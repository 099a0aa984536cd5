package tensor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// dimensional are the functions that take a dimension, each called with dimension d of x, [2, 2], and otherwise so that any of its two
// dimensions is right. at has indices for each element, row for each of a dimension. The first word of a name is the function: the rest tells its parameters apart.
func dimensional(x, at, row *tensor.Tensor) map[string]func(d int) error {
	one := func(y *tensor.Tensor, err error) error { y.Release(); return err }
	two := func(y, z *tensor.Tensor, err error) error { y.Release(); z.Release(); return err }
	many := func(ys []*tensor.Tensor, err error) error {
		for _, y := range ys {
			y.Release()
		}
		return err
	}
	return map[string]func(d int) error{
		"Cat":               func(d int) error { return one(tensor.Cat(tensors{x, x}, d)) },
		"Flip":              func(d int) error { return one(x.Flip(d)) },
		"Roll":              func(d int) error { return one(x.Roll([]int{1}, []int{d})) },
		"Gather":            func(d int) error { return one(x.Gather(d, at)) },
		"TakeAlongDim":      func(d int) error { return one(x.TakeAlongDim(at, d)) },
		"IndexSelect":       func(d int) error { return one(x.IndexSelect(d, row)) },
		"IndexAdd":          func(d int) error { return one(x.IndexAdd(d, row, x)) },
		"IndexAddInPlace":   func(d int) error { return x.IndexAddInPlace(d, row, x) },
		"Split":             func(d int) error { return many(x.Split(1, d)) },
		"SplitSizes":        func(d int) error { return many(x.SplitSizes([]int{1, 1}, d)) },
		"Chunk":             func(d int) error { return many(x.Chunk(2, d)) },
		"Unbind":            func(d int) error { return many(x.Unbind(d)) },
		"MoveDim from":      func(d int) error { return one(x.MoveDim(d, 0)) },
		"MoveDim to":        func(d int) error { return one(x.MoveDim(0, d)) },
		"SwapAxes one":      func(d int) error { return one(x.SwapAxes(d, 0)) },
		"SwapAxes other":    func(d int) error { return one(x.SwapAxes(0, d)) },
		"Transpose one":     func(d int) error { return one(x.Transpose(d, 0)) },
		"Transpose other":   func(d int) error { return one(x.Transpose(0, d)) },
		"Diagonal one":      func(d int) error { return one(x.Diagonal(0, d, otherThan(d))) },
		"Diagonal other":    func(d int) error { return one(x.Diagonal(0, otherThan(d), d)) },
		"Permute":           func(d int) error { return one(x.Permute(otherThan(d), d)) },
		"Flatten from":      func(d int) error { return one(x.Flatten(d, 1)) },
		"Flatten to":        func(d int) error { return one(x.Flatten(0, d)) },
		"Sum":               func(d int) error { return one(x.Sum([]int{d}, false)) },
		"Prod":              func(d int) error { return one(x.Prod([]int{d}, false)) },
		"Mean":              func(d int) error { return one(x.Mean([]int{d}, false)) },
		"Max":               func(d int) error { return one(x.Max([]int{d}, false)) },
		"Min":               func(d int) error { return one(x.Min([]int{d}, false)) },
		"Any":               func(d int) error { return one(x.Any([]int{d}, false)) },
		"All":               func(d int) error { return one(x.All([]int{d}, false)) },
		"Var":               func(d int) error { return one(x.Var([]int{d}, 1, false)) },
		"Std":               func(d int) error { return one(x.Std([]int{d}, 1, false)) },
		"Norm":              func(d int) error { return one(x.Norm(2, []int{d}, false)) },
		"LogSumExp":         func(d int) error { return one(x.LogSumExp([]int{d}, false)) },
		"CountNonzero":      func(d int) error { return one(x.CountNonzero(d)) },
		"ArgMax":            func(d int) error { return one(x.ArgMax(d, false)) },
		"ArgMin":            func(d int) error { return one(x.ArgMin(d, false)) },
		"MaxDim":            func(d int) error { return two(x.MaxDim(d, false)) },
		"MinDim":            func(d int) error { return two(x.MinDim(d, false)) },
		"RepeatInterleave":  func(d int) error { return one(x.RepeatInterleave(2, d)) },
		"Scatter":           func(d int) error { return one(x.Scatter(d, at, x)) },
		"ScatterAdd":        func(d int) error { return one(x.ScatterAdd(d, at, x)) },
		"ScatterValue":      func(d int) error { return one(x.ScatterValue(d, at, 1)) },
		"ScatterInPlace":    func(d int) error { return x.ScatterInPlace(d, at, x) },
		"ScatterAddInPlace": func(d int) error { return x.ScatterAddInPlace(d, at, x) },
		"Softmax":           func(d int) error { return one(x.Softmax(d)) },
		"LogSoftmax":        func(d int) error { return one(x.LogSoftmax(d)) },
		"SoftmaxGrad":       func(d int) error { return one(gradients.Softmax(x, x, d)) },
		"LogSoftmaxGrad":    func(d int) error { return one(gradients.LogSoftmax(x, x, d)) },
		"Sort":              func(d int) error { return two(x.Sort(d, false)) },
		"ArgSort":           func(d int) error { return one(x.ArgSort(d, false)) },
		"TopK":              func(d int) error { return two(x.TopK(1, d, true)) },
		"TensorDot one":     func(d int) error { return one(x.TensorDot(x, []int{d}, []int{0})) },
		"TensorDot other":   func(d int) error { return one(x.TensorDot(x, []int{0}, []int{d})) },
		"gradients.TensorDotEquation": func(d int) error {
			_, err := gradients.TensorDotEquation(x.Shape(), x.Shape(), []int{d}, []int{0})
			return err
		},
		"IndexCopy":        func(d int) error { return one(x.IndexCopy(d, row, x)) },
		"IndexCopyInPlace": func(d int) error { return x.IndexCopyInPlace(d, row, x) },
		"IndexFill":        func(d int) error { return one(x.IndexFill(d, row, 1)) },
		"ScatterReduce":    func(d int) error { return one(x.ScatterReduce(d, at, x, tensor.ScatterProd, true)) },
		"KthValue":         func(d int) error { return two(x.KthValue(1, d, false)) },
		"MedianDim":        func(d int) error { return two(x.MedianDim(d, false)) },
		"NanMedianDim":     func(d int) error { return two(x.NanMedianDim(d, false)) },
		"ModeDim":          func(d int) error { return two(x.ModeDim(d, false)) },
		"CumMax":           func(d int) error { return two(x.CumMax(d)) },
		"CumMin":           func(d int) error { return two(x.CumMin(d)) },
		"CumSum":           func(d int) error { return one(x.CumSum(d)) },
		"CumProd":          func(d int) error { return one(x.CumProd(d)) },
		"CumSumGrad":       func(d int) error { return one(gradients.CumSum(x, d)) },
		"CumProdGrad":      func(d int) error { return one(gradients.CumProd(x, x, x, d)) },
		"Slice":            func(d int) error { return one(x.Slice(d, 0, 1, 1)) },
		"Narrow":           func(d int) error { return one(x.Narrow(d, 0, 1)) },
		"Select":           func(d int) error { return one(x.Select(d, 0)) },
		"Squeeze":          func(d int) error { return one(x.Squeeze(d)) },
	}
}

// otherThan is the other one of two dimensions, and the last for what is none of them.
func otherThan(d int) int {
	if d == 1 || d == -1 {
		return 0
	}
	return 1
}

func TestDimensions_CountFromBothEndsAndNoFurther(t *testing.T) {
	b := onHost(t)
	x := iota(t, b.Exec, 2, 2)
	at, row := must(t)(tensor.Zeros(b.Exec, tensor.Int64, 2, 2)), must(t)(tensor.Zeros(b.Exec, tensor.Int64, 2))
	for name, f := range dimensional(x, at, row) {
		for _, d := range []int{-2, 1} {
			require.NoError(t, f(d), "%s of dimension %d", name, d)
		}
		for _, d := range []int{-3, 2} {
			require.Equal(t, refusal("shape"), kindOf(f(d)), "%s of dimension %d", name, d)
		}
	}
	for name, f := range map[string]func(d int) (*tensor.Tensor, error){ // where a new dimension goes
		"Unsqueeze": x.Unsqueeze, "Stack": func(d int) (*tensor.Tensor, error) { return tensor.Stack(tensors{x, x}, d) },
	} {
		require.Equal(t, must(t)(f(0)).Shape(), must(t)(f(-3)).Shape(), name)
		require.Equal(t, must(t)(f(2)).Shape(), must(t)(f(-1)).Shape(), name)
		for _, d := range []int{-4, 3} {
			_, err := f(d)
			require.Equal(t, refusal("shape"), kindOf(err), "%s at dimension %d", name, d)
		}
	}
}

func TestDimensions_OfEveryFunctionThatTakesOneAreTested(t *testing.T) {
	// The pools take a number of dimensions.
	tested := map[string]bool{"Unsqueeze": true, "Stack": true, "gradients.MaxPool": true, "gradients.MaxPoolPick": true, "gradients.AvgPool": true}
	for name := range dimensional(nil, nil, nil) {
		for _, n := range functionNames(operationOf(name)) {
			tested[n] = true
		}
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			for _, param := range fn.Type.Params.List {
				for _, name := range param.Names {
					if name.Name == "dim" || name.Name == "dims" {
						require.True(t, tested[functionName(fn)], "%s takes %s", functionName(fn), name.Name)
					}
				}
			}
		}
	}
}
