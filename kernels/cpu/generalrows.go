package cpu

import (
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// The rows of norms, running sums, sorting and the like.

func three[T any](f kernel3[T, T, T, T]) func(accessor[T]) op.Func {
	return func(l accessor[T]) op.Func { return elementwise(l, l, l, l, f) }
}

func reduceNormRows() []op.Row {
	norm := func(id op.ID, f reducer[float32, float64, float32], g reducer[float64, float64, float64]) op.Row {
		return row(id, floats(same(f), same(g)))
	}
	return []op.Row{
		norm(op.Norm1, norm1Reducer[float32](), norm1Reducer[float64]()),
		norm(op.Norm2, norm2Reducer[float32](), norm2Reducer[float64]()),
		norm(op.MeanSquare, meanSquareReducer[float32](), meanSquareReducer[float64]()),
		row(op.NormMax, floats(same(normMaxReducer[float32]()), same(normMaxReducer[float64]()))),
		row(op.NormMin, floats(same(normMinReducer[float32]()), same(normMinReducer[float64]()))),
		row(op.LogSumExp, floats(same(logSumExpReducer[float32]()), same(logSumExpReducer[float64]()))),
		row(op.CountNonzero,
			floats(wide(nonzeroReducer[float32]()), wide(nonzeroReducer[float64]())),
			integers(wide(nonzeroReducer[int64]()), wide(nonzeroReducer[int32]()), wide(nonzeroReducer[uint8]())),
			boolean(wide(nonzeroReducer[uint8]()))),
	}
}

func orderRows() []op.Row {
	sorted := sortFuncs()
	return []op.Row{
		row(op.CumSum, floats(cumSum[float32], cumSum[float64]),
			integers(intCumSum[int64], intCumSum[int32], intCumSum[uint8]), boolean(intCumSum[uint8])),
		row(op.CumProd, floats(cumProd[float32], cumProd[float64]),
			integers(intCumProd[int64], intCumProd[int32], intCumProd[uint8]), boolean(intCumProd[uint8])),
		row(op.CumProdGrad, floats(cumProdGrad[float32], cumProdGrad[float64])),
		{Op: op.Sort, Funcs: sorted},
		{Op: op.TopK, Funcs: sorted},
		{Op: op.Tril, Funcs: bySize(
			triangular[uint8](false), triangular[uint16](false), triangular[uint32](false), triangular[uint64](false))},
		{Op: op.Triu, Funcs: bySize(
			triangular[uint8](true), triangular[uint16](true), triangular[uint32](true), triangular[uint64](true))},
	}
}

// sortFuncs are the Funcs of Sort and TopK: Bool is sorted as Uint8.
func sortFuncs() (f funcs) {
	narrow := narrowOrdering(keyFloat32)
	for _, d := range []dtype.DType{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		f[d] = sortRows(accessorOf[float32](d), narrow)
	}
	f[dtype.Float64] = sortRows(accessorOf[float64](dtype.Float64), wideOrdering(keyFloat64))
	f[dtype.Int64] = sortRows(accessorOf[int64](dtype.Int64), wideOrdering(keyInt64))
	f[dtype.Int32] = sortRows(accessorOf[int32](dtype.Int32), narrowOrdering(keyInt32))
	f[dtype.Uint8] = sortRows(accessorOf[uint8](dtype.Uint8), narrowOrdering(keyUint8))
	f[dtype.Bool] = f[dtype.Uint8]
	return f
}
