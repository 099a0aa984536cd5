package cpu

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Rows lists the operations that this package implements, with a Func for each type. It is the only list: a kernel that
// does not stand here does not exist.
func Rows() []op.Row {
	lists := [][]op.Row{
		fillRows(),
		lossRows(),
		reduceRows(),
		structuredRows(),
		reduceNormRows(),
		scanRows(),
		sortingRows(),
		triangleRows(),
		normRows(),
		gatherRows(),
		poolRows(),
		sampleRows(),
		stepRows(),
		clipRows(),
		cellRows(),
		ampRows(),
		tableRows(),
	}
	var all []op.Row
	for _, l := range lists {
		all = append(all, l...)
	}
	withMixed(all)
	withWords(all)
	return append(all, castManyRow(all), addMixedRow(), matMulActRow(all), linearWeightGradRow(all))
}

// funcs is the Funcs of a row: a Func for each type.
type funcs = [dtype.Count]op.Func

func row(id op.ID, parts ...funcs) op.Row {
	r := op.Row{Op: id}
	for _, p := range parts {
		for d, f := range p {
			if f != nil {
				r.Funcs[d] = f
			}
		}
	}
	return r
}

// floats makes the Funcs of the four float types: half precision is computed as float32.
func floats(narrow func(accessor[float32]) op.Func, wide func(accessor[float64]) op.Func) (f funcs) {
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		f[d] = narrow(accessorOf[float32](d))
	}
	f[dtype.Float64] = wide(accessorOf[float64](dtype.Float64))
	return f
}

func integers(l func(accessor[int64]) op.Func, i func(accessor[int32]) op.Func, u func(accessor[uint8]) op.Func) (f funcs) {
	f[dtype.Int64] = l(accessorOf[int64](dtype.Int64))
	f[dtype.Int32] = i(accessorOf[int32](dtype.Int32))
	f[dtype.Uint8] = u(accessorOf[uint8](dtype.Uint8))
	return f
}

func boolean(b func(accessor[uint8]) op.Func) (f funcs) {
	f[dtype.Bool] = b(accessorOf[uint8](dtype.Bool))
	return f
}

// one, two and three make Funcs of kernels whose operands all have the type of the row; two8 and one8 have a Bool output. They are not inlined:
// the table calls them some two hundred times, and the compiler would make a function of its own of what each call returns.

//go:noinline
func one[T any](f kernel1[T, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return unary(l, l, f) }
}

//go:noinline
func two[T any](f kernel2[T, T, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return binary(l, l, l, f) }
}

//go:noinline
func three[T any](f kernel3[T, T, T, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return elementwise(l, l, l, l, f) }
}

//go:noinline
func one8[T any](f kernel1[uint8, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return unary(accessorOf[uint8](dtype.Bool), l, f) }
}

//go:noinline
func two8[T any](f kernel2[uint8, T, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return binary(accessorOf[uint8](dtype.Bool), l, l, f) }
}

func floatTwo(id op.ID, f kernel2[float32, float32, float32], g kernel2[float64, float64, float64]) op.Row {
	return row(id, floats(two(f), two(g)))
}

// bySize makes the Funcs of an operation that only moves bits.
func bySize(f1, f2, f4, f8 op.Func) (f funcs) {
	for _, d := range dtype.All() {
		f[d] = map[int]op.Func{1: f1, 2: f2, 4: f4, 8: f8}[d.Size()]
	}
	return f
}

// same makes Funcs of a reducer whose result has the type of the row; wide of one whose result is Int64.

func same[T, A any](r reducer[T, A, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return reduce(l, l, r) }
}

func wide[T any](r reducer[T, int64, int64]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return reduce(l, accessorOf[int64](dtype.Int64), r) }
}

func arg[T number](least bool) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return argReduce(l, least) }
}
