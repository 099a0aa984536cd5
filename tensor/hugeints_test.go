package tensor_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// Sums of numbers of a program's must not wrap around: a shape that looks right would be written outside of its memory.
func TestPad_ByNumbersWhoseSumWraps_IsAnError(t *testing.T) {
	b := settings[0].bench(t)
	const most, least = math.MaxInt, math.MinInt
	for _, pad := range [][]int{
		{most, most}, {least, least}, {least, most}, {most, least}, {most, 0}, {0, most}, {least, 0}, {1 << 62, 1 << 62}, {-1 << 62, -1 << 62},
		{-1 << 62, 1 << 62}, {1 << 62, -1 << 62}, {-5, 4}, {4, -5}, {0, 0, most, most}, {0, 0, least, least}, {most, 2 - most}, {-most, most},
	} {
		for _, mode := range []tensor.PadMode{tensor.PadConstant, tensor.PadReflect, tensor.PadReplicate, tensor.PadCircular} {
			for _, shape := range [][]int{{2, 3}, {0, 3}, {3, 0}} {
				x, err := tensor.Ones(b.Exec, tensor.Float32, shape...)
				require.NoError(t, err)
				for name, call := range map[string]func() (*tensor.Tensor, error){
					"Pad":     func() (*tensor.Tensor, error) { return x.Pad(pad, mode, 7) },
					"PadGrad": func() (*tensor.Tensor, error) { return gradients.Pad(x, pad, mode) },
				} {
					if pad[0] > -10 && pad[0] < 10 && pad[1] > -10 && pad[1] < 10 && name == "PadGrad" {
						continue // the small ones may be right for the gradient of another shape
					}
					if mode == tensor.PadReplicate && max(pad[0], pad[1]) == 4 && shape[1] > 0 {
						continue // padded by 4 and cut by 5, two are left
					}
					var bad *tensor.ShapeError
					require.ErrorAs(t, second(call()), &bad, "%s(%v) of %v in mode %v", name, pad, shape, mode)
					require.Equal(t, name, bad.Op)
				}
				x.Release()
			}
		}
	}
	x, err := tensor.Ones(b.Exec, tensor.Float32, 2, 3)
	require.NoError(t, err)
	defer x.Release()
	cut, err := x.Pad([]int{-3, 1}, tensor.PadConstant, 7)
	require.NoError(t, err, "all may be cut off")
	require.Equal(t, []float64{7, 7}, values(t, cut))
	cut.Release()
}

func second(t *tensor.Tensor, err error) error {
	t.Release()
	return err
}

// capped is an allocator that refuses what no test of small tensors needs.
type capped struct{ memory.Allocator }

func (c capped) Alloc(bytes uint64, s device.Stream) (memory.Block, error) {
	if bytes > 1<<20 {
		return memory.Block{}, memory.ErrOutOfMemory
	}
	return c.Allocator.Alloc(bytes, s)
}

// hugeInts are numbers whose sums, products, negatives or conversions to 32 bits are others, and small ones beside them.
var hugeInts = []int{math.MinInt, math.MaxInt, 1 << 62, -1 << 62, 1 << 31, -1 << 31, -1, 0, 2}

// hugeLists are lists of them.
func hugeLists() (all [][]int) {
	for _, a := range hugeInts {
		all = append(all, []int{a})
		for _, b := range hugeInts {
			all = append(all, []int{a, b})
		}
	}
	return append(all, []int{1 << 62, 1 << 62, 1 << 62, 1<<62 + 2}, []int{math.MinInt, math.MinInt, math.MaxInt, 1})
}

// arguments calls f with all combinations of numbers for a method's parameters.
func arguments(m reflect.Method, self, other *tensor.Tensor, f func(args []reflect.Value)) {
	var fill func(args []reflect.Value)
	fill = func(args []reflect.Value) {
		next := func(v reflect.Value) { fill(append(args[:len(args):len(args)], v)) }
		i := len(args)
		if i == m.Type.NumIn() {
			f(args)
			return
		}
		switch in := m.Type.In(i); in {
		case reflect.TypeFor[int]():
			for _, v := range hugeInts {
				next(reflect.ValueOf(v))
			}
		case reflect.TypeFor[[]int]():
			lists := hugeLists()
			if i > 1 {
				lists = [][]int{{0}, {0, 1}, {math.MaxInt}}
			}
			for _, v := range lists {
				next(reflect.ValueOf(v))
			}
		case reflect.TypeFor[*tensor.Tensor]():
			next(reflect.ValueOf(other))
		default:
			next(reflect.Zero(in))
		}
	}
	fill([]reflect.Value{reflect.ValueOf(self)})
}

// hasInts reports whether a method has a parameter with integers.
func hasInts(m reflect.Method) bool {
	for i := range m.Type.NumIn() {
		if in := m.Type.In(i); in == reflect.TypeFor[int]() || in == reflect.TypeFor[[]int]() {
			return true
		}
	}
	return false
}

// Every method of tensors that takes integers answers any of them with a result, or an error that names the operation: it does not panic,
// and no result is outside of its memory.
func TestMethods_TakeAnyInteger(t *testing.T) {
	b := settings[0].bench(t)
	e, err := tensor.On(b.Device(), tensor.WithAllocator(capped{b.Exec.Allocator()}))
	require.NoError(t, err)
	calls := 0
	for _, shape := range [][]int{{2, 3}, {0, 3}, {4}} {
		self, err := tensor.Ones(e, tensor.Float32, shape...)
		require.NoError(t, err)
		idx, err := tensor.Zeros(e, tensor.Int64, 2)
		require.NoError(t, err)
		of := reflect.TypeOf(self)
		for i := range of.NumMethod() {
			if m := of.Method(i); hasInts(m) {
				arguments(m, self, idx, func(args []reflect.Value) {
					calls++
					callAny(t, m, args)
				})
			}
		}
		self.Release()
		idx.Release()
	}
	require.Greater(t, calls, 10_000)
}

// callAny calls a method, reads what it returns, and releases that.
func callAny(t *testing.T, m reflect.Method, args []reflect.Value) {
	t.Helper()
	call := m.Func.Call
	if m.Type.IsVariadic() {
		call = m.Func.CallSlice
	}
	var out []reflect.Value
	require.NotPanics(t, func() { out = call(args) }, "%s%v", m.Name, args[1:])
	for _, o := range out {
		switch v := o.Interface().(type) {
		case error:
			require.Contains(t, v.Error(), m.Name+":", "%v", args[1:])
		case *tensor.Tensor:
			if v.Len() > 0 && v.Len() < 1<<10 {
				_, err := v.Float64s()
				require.NoError(t, err)
			}
			v.Release()
		case []*tensor.Tensor:
			for _, p := range v {
				p.Release()
			}
		}
	}
}

// What is outside of a tensor is cut to it, as in PyTorch, however far outside it is.
func TestOperations_WithHugeIntegers_AreThoseOfTheEdge(t *testing.T) {
	b := settings[0].bench(t)
	x, err := tensor.FromSlice(b.Exec, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	defer x.Release()
	none, all := []float64{0, 0, 0, 0, 0, 0}, []float64{1, 2, 3, 4, 5, 6}
	for name, c := range map[string]struct {
		want []float64
		call func() (*tensor.Tensor, error)
	}{
		"Tril of MinInt":         {none, func() (*tensor.Tensor, error) { return x.Tril(math.MinInt) }},
		"Tril of MaxInt":         {all, func() (*tensor.Tensor, error) { return x.Tril(math.MaxInt) }},
		"Triu of MinInt":         {all, func() (*tensor.Tensor, error) { return x.Triu(math.MinInt) }},
		"Triu of MaxInt":         {none, func() (*tensor.Tensor, error) { return x.Triu(math.MaxInt) }},
		"Triu of 2 to the 31":    {none, func() (*tensor.Tensor, error) { return x.Triu(1 << 31) }},
		"Diagonal of MaxInt":     {[]float64{}, func() (*tensor.Tensor, error) { return x.Diagonal(math.MaxInt, 0, 1) }},
		"Diagonal of MinInt":     {[]float64{}, func() (*tensor.Tensor, error) { return x.Diagonal(math.MinInt, 0, 1) }},
		"Roll by MinInt, 3 of 3": {[]float64{3, 1, 2, 6, 4, 5}, func() (*tensor.Tensor, error) { return x.Roll([]int{math.MinInt}, []int{1}) }},
		"Roll by MaxInt":         {[]float64{3, 1, 2, 6, 4, 5}, func() (*tensor.Tensor, error) { return x.Roll([]int{math.MaxInt}, []int{1}) }},
		"Roll twice by MaxInt":   {all, func() (*tensor.Tensor, error) { return x.Roll([]int{math.MaxInt, math.MaxInt}, []int{0, 0}) }},
		"Slice of everything":    {all, func() (*tensor.Tensor, error) { return x.Slice(1, math.MinInt, math.MaxInt, 1) }},
		"Slice with a huge step": {[]float64{2, 5}, func() (*tensor.Tensor, error) { return x.Slice(1, 1, math.MaxInt, math.MaxInt) }},
	} {
		y, err := c.call()
		require.NoError(t, err, name)
		require.Equal(t, c.want, append([]float64{}, values(t, y)...), name)
		y.Release()
	}
}
