package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Tensors of more than 2^31 elements, which only a GPU has the time for; the emulated driver runs the same tests on less.

// hugeWidth is the length of a row, and hugeRows how many of them are more than 2^31 elements, and more bytes than 2^32.
const (
	hugeWidth = 16
	hugeRows  = 1<<27 + 8
)

// huge is a matrix of zeros but for a few pairs of rows: the first ones, the last ones, and some between, which of hugeRows are those
// around 2^31 bytes and 2^31 elements. They have small integers, of which half precision can hold every sum of this test.
type huge struct {
	*making
	x      *tensor.Tensor
	rows   int
	places []int
	pairs  []*tensor.Tensor // what is there
	zeros  *tensor.Tensor   // a pair of rows of zeros
	quiet  int              // and where there is one
}

func newHuge(m *making, rows int) *huge {
	m.t.Helper()
	h := &huge{making: m, rows: rows, places: []int{0, rows / 4, rows/2 - 5, rows - 9, rows - 2}, quiet: rows / 3}
	h.x = m.of(tensor.Zeros(m.Exec, tensor.Float16, rows, hugeWidth))
	h.zeros = m.of(tensor.Zeros(m.Exec, tensor.Float16, 2, hugeWidth))
	for i, at := range h.places {
		whole := m.of(m.of(m.numbers(tensor.Float16, 2, hugeWidth).MulScalar(4)).AddScalar(float64(i)))
		pair := m.of(whole.Clamp(-4, 4))
		h.pairs = append(h.pairs, pair)
		view, err := h.x.Narrow(0, at, 2)
		require.NoError(m.t, err)
		require.NoError(m.t, view.CopyFrom(pair))
		view.Release()
	}
	return h
}

// same asserts that f, which looks at each row by itself, makes of the rows of the whole what it makes of them alone. dim is the
// result's dimension of rows.
func (h *huge) same(t *testing.T, dim int, f func(x *tensor.Tensor) (*tensor.Tensor, error)) {
	t.Helper()
	all, err := f(h.x)
	require.NoError(t, err)
	defer all.Release()
	check := func(pair *tensor.Tensor, at int) {
		alone, err := f(pair)
		require.NoError(t, err)
		defer alone.Release()
		part, err := all.Narrow(dim, at, 2)
		require.NoError(t, err)
		defer part.Release()
		require.Equal(t, values(t, alone), values(t, part), "rows from %d on", at)
	}
	for i, at := range h.places {
		check(h.pairs[i], at)
	}
	check(h.zeros, h.quiet)
}

// rowwise are operations that look at each row by itself.
func (h *huge) rowwise() map[string]func(x *tensor.Tensor) (*tensor.Tensor, error) {
	row, one := h.numbers(tensor.Float16, hugeWidth), h.numbers(tensor.Float16, 1, hugeWidth)
	square := h.numbers(tensor.Float16, hugeWidth, hugeWidth)
	return map[string]func(x *tensor.Tensor) (*tensor.Tensor, error){
		"function":  func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.AddScalar(1.5) },
		"of two":    func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Mul(x) },
		"broadcast": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Add(row) },
		"where": func(x *tensor.Tensor) (*tensor.Tensor, error) {
			c, err := x.GtScalar(0.5)
			if err != nil {
				return nil, err
			}
			defer c.Release()
			return tensor.Where(c, x, one)
		},
		"cast":    func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.To(tensor.Float32) },
		"softmax": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Softmax(1) },
		"norm": func(x *tensor.Tensor) (*tensor.Tensor, error) {
			y, moments, err := tensor.LayerNorm(x, []int{hugeWidth}, row, row, 1e-5)
			if err == nil {
				moments.Release()
			}
			return y, err
		},
		"sum":     func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.Sum([]int{1}, false) },
		"scan":    func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.CumSum(1) },
		"product": func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.MatMul(square) },
		"vector":  func(x *tensor.Tensor) (*tensor.Tensor, error) { return x.MatMul(row) },
	}
}

// hugeTensors runs all of them, and operations on columns.
func hugeTensors(t *testing.T, b bench, rows int) {
	m := &making{t: t, Exec: b.Exec}
	defer m.release()
	h := newHuge(m, rows)
	for name, f := range h.rowwise() {
		t.Run(name, func(t *testing.T) { h.same(t, 0, f) })
	}
	t.Run("transposed", func(t *testing.T) {
		h.same(t, 1, func(x *tensor.Tensor) (*tensor.Tensor, error) {
			y, err := x.T()
			if err != nil {
				return nil, err
			}
			defer y.Release()
			return y.Contiguous()
		})
	})
	t.Run("transposed product", func(t *testing.T) {
		left := h.numbers(tensor.Float16, 3, hugeWidth)
		h.same(t, 1, func(x *tensor.Tensor) (*tensor.Tensor, error) {
			y, err := x.T()
			if err != nil {
				return nil, err
			}
			defer y.Release()
			return left.MatMul(y)
		})
	})
	t.Run("rows by index", func(t *testing.T) {
		var index []int64
		var want []float64
		for i, at := range h.places {
			index = append(index, int64(at+1), int64(at))
			v := values(t, h.pairs[i])
			want = append(append(want, v[hugeWidth:]...), v[:hugeWidth]...)
		}
		i := h.of(tensor.FromSlice(h.Exec, index))
		require.Equal(t, want, values(t, h.of(h.x.IndexSelect(0, i))))
	})
	t.Run("columns", func(t *testing.T) { h.columns(t) })
}

// columns sums over the rows, of which all but the pairs are zero, and multiplies the matrix with itself.
func (h *huge) columns(t *testing.T) {
	sums, squares := make([]float64, hugeWidth), make([]float64, hugeWidth*hugeWidth)
	most := make([]float64, hugeWidth)
	for _, pair := range h.pairs {
		v := values(t, pair)
		for r := range 2 {
			for i, x := range v[r*hugeWidth:][:hugeWidth] {
				sums[i] += x
				most[i] = max(most[i], x)
				for j, y := range v[r*hugeWidth:][:hugeWidth] {
					squares[i*hugeWidth+j] += x * y
				}
			}
		}
	}
	require.Equal(t, sums, values(t, h.of(h.x.Sum([]int{0}, false))))
	require.Equal(t, most, values(t, h.of(h.x.Max([]int{0}, false))))
	transposed := h.of(h.x.T())
	require.Equal(t, squares, values(t, h.of(transposed.MatMul(h.x))), "products of 2^31 elements with as many")
}

// hugeImages convolves images of more than 2^31 elements in all, and attends in as many heads.
func hugeImages(t *testing.T, b bench, images int) {
	m := &making{t: t, Exec: b.Exec}
	defer m.release()
	last := func(x *tensor.Tensor, pair *tensor.Tensor) {
		view, err := x.Narrow(0, images-2, 2)
		require.NoError(t, err)
		defer view.Release()
		require.NoError(t, view.CopyFrom(pair))
	}
	lastOf := func(x *tensor.Tensor) []float64 { return values(t, m.of(x.Narrow(0, images-2, 2))) }
	t.Run("convolution", func(t *testing.T) {
		defer m.release()
		x := m.of(tensor.Zeros(m.Exec, tensor.Float16, images, 32, 32, 32))
		pair, w := m.numbers(tensor.Float16, 2, 32, 32, 32), m.numbers(tensor.Float16, 32, 32, 1, 1)
		last(x, pair)
		got := m.of(tensor.Conv2d(x, w, nil, tensor.Conv{}))
		require.Equal(t, values(t, m.of(tensor.Conv2d(pair, w, nil, tensor.Conv{}))), lastOf(got))
	})
	t.Run("attention", func(t *testing.T) {
		defer m.release()
		x := m.of(tensor.Zeros(m.Exec, tensor.Float16, images, 32, 16, 64))
		pair := m.numbers(tensor.Float16, 2, 32, 16, 64)
		last(x, pair)
		attend := func(x *tensor.Tensor) *tensor.Tensor {
			return m.of(tensor.ScaledDotProductAttention(x, x, x, tensor.Attention{}))
		}
		require.Equal(t, values(t, attend(pair)), lastOf(attend(x)))
	})
}

// longSorts sorts rows that a block cannot hold, which are merged by rows of blocks: values must ascend, be what stands at their
// indices, and have each index once, as far as a sum can tell.
func longSorts(t *testing.T, b bench, rows int) {
	const columns = 4100
	m := &making{t: t, Exec: b.Exec}
	defer m.release()
	all := func(x *tensor.Tensor) {
		t.Helper()
		require.EqualValues(t, 1, values(t, m.of(x.All(nil, false)))[0])
	}
	x := m.of(tensor.Rand(m.Exec, tensor.NewGenerator(7), tensor.Float16, rows, columns))
	r := m.both(x.Sort(1, false))
	low, high := m.of(r[0].Narrow(1, 0, columns-1)), m.of(r[0].Narrow(1, 1, columns-1))
	all(m.of(low.Le(high)))
	all(m.of(m.of(x.Gather(1, r[1])).Eq(r[0])))
	all(m.of(m.of(r[1].Sum([]int{1}, false)).EqScalar(columns * (columns - 1) / 2)))
}

func TestHuge_OnLess(t *testing.T) {
	b, _ := onPTX(t)
	t.Run("sort", func(t *testing.T) { longSorts(t, b, 3) })
	hugeTensors(t, b, 1008)
	hugeImages(t, b, 3)
}

// TestGPU_HugeTensors needs 24 GiB.
func TestGPU_HugeTensors(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: with -short nothing is huge")
	}
	b := onGPU(t)
	const need = 24 << 30
	if free := freeMemory(t, b.Device()); free < need {
		t.Skipf("SKIPPED: tensors of 2^31 elements need %d bytes, and %d are free", uint64(need), free)
	}
	for name, library := range map[string]bool{"library": true, "own": false} {
		t.Run(name, func(t *testing.T) {
			useBLAS(t, b, library)
			hugeTensors(t, b, hugeRows)
		})
	}
	require.NoError(t, b.alloc.EmptyCache())
	hugeImages(t, b, 1<<16+2)
	require.NoError(t, b.alloc.EmptyCache())
	t.Run("sort", func(t *testing.T) { longSorts(t, b, 1<<16+3) }) // more rows than a grid has in its second dimension
}
