package tensor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// onPTX is a bench on the emulated driver, which runs the committed PTX.
func onPTX(t *testing.T, settings ...func(*fakecuda.Library)) (bench, *cudatest.Rig) {
	t.Helper()
	dev, rig := emulatedtest.NewPTX(t, settings...)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	return newBench(t, dev, alloc), rig
}

// making makes tensors, which it releases together.
type making struct {
	t *testing.T
	tensor.Exec
	all []*tensor.Tensor
}

func (m *making) of(x *tensor.Tensor, err error) *tensor.Tensor {
	m.t.Helper()
	require.NoError(m.t, err)
	m.all = append(m.all, x)
	return x
}

// both is of for operations with two results.
func (m *making) both(x, y *tensor.Tensor, err error) []*tensor.Tensor {
	m.t.Helper()
	require.NoError(m.t, err)
	m.all = append(m.all, x, y)
	return []*tensor.Tensor{x, y}
}

func (m *making) release() {
	for _, x := range m.all {
		x.Release()
	}
	m.all = nil
}

// numbers are small multiples of a quarter, whose products and sums are exact.
func (m *making) numbers(dt tensor.DType, shape ...int) *tensor.Tensor {
	m.t.Helper()
	data := make([]float32, tensor.Shape(shape).Len())
	for i := range data {
		data[i] = float32(i*7%23-11) / 4
	}
	x := m.of(tensor.FromSlice(m.Exec, data, shape...))
	return m.of(x.To(dt))
}

// indices are numbers below n in no order, with many that occur more than once.
func (m *making) indices(n int, shape ...int) *tensor.Tensor {
	m.t.Helper()
	data := make([]int64, tensor.Shape(shape).Len())
	for i := range data {
		data[i] = int64(i*7919%10_007) % int64(n)
	}
	return m.of(tensor.FromSlice(m.Exec, data, shape...))
}

// A grid has at most 65,535 blocks in its second and third dimension. broad has operations on n of something.
var broad = []struct {
	name string
	run  func(m *making, n int) []*tensor.Tensor
}{
	{"products", func(m *making, n int) []*tensor.Tensor {
		return []*tensor.Tensor{m.of(m.numbers(tensor.Float32, n, 2, 3).MatMul(m.numbers(tensor.Float32, n, 3, 2)))}
	}},
	{"products with a matrix for all", func(m *making, n int) []*tensor.Tensor {
		x, y := m.numbers(tensor.Float16, n, 3, 1), m.numbers(tensor.Float16, 2, 3)
		return []*tensor.Tensor{m.of(y.MatMul(x))}
	}},
	{"groups of a convolution", func(m *making, n int) []*tensor.Tensor {
		x, w, c := m.numbers(tensor.Float32, 1, n, 3, 3), m.numbers(tensor.Float32, n, 1, 2, 2), tensor.Conv{Groups: n}
		y := m.of(tensor.Conv2d(x, w, m.numbers(tensor.Float32, n), c))
		return []*tensor.Tensor{y, m.of(gradients.ConvInput(y, w, x.Shape(), c)), m.of(gradients.ConvWeight(y, x, w.Shape(), c))}
	}},
	{"groups of a convolution with channels", func(m *making, n int) []*tensor.Tensor {
		x, w, c := m.numbers(tensor.Float16, 1, n, 2, 1), m.numbers(tensor.Float16, 5*n, 1, 1, 1), tensor.Conv{Groups: n}
		y := m.of(tensor.Conv2d(x, w, nil, c))
		return []*tensor.Tensor{y, m.of(gradients.ConvInput(y, w, x.Shape(), c)), m.of(gradients.ConvWeight(y, x, w.Shape(), c))}
	}},
	{"heads of attention", func(m *making, n int) (list []*tensor.Tensor) {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float16} {
			q, k, v := m.numbers(dt, n/4, 4, 1, 8), m.numbers(dt, n/4, 4, 2, 8), m.numbers(dt, n/4, 4, 2, 8)
			out, err := tensor.ScaledDotProductAttention(q, k, v, tensor.Attention{})
			list = append(list, m.of(out, err))
		}
		return list
	}},
	{"gradients of heads of attention", func(m *making, n int) []*tensor.Tensor {
		q, k := m.numbers(tensor.Float16, n/4, 4, 1, 8), m.numbers(tensor.Float16, n/4, 4, 1, 8)
		r := m.both(gradients.AttentionForward(q, k, k, tensor.Attention{}))
		g, err := gradients.Attention(q, q, k, k, r[0], r[1], tensor.Attention{}, false)
		require.NoError(m.t, err)
		m.all = append(m.all, g.Q, g.K, g.V)
		return []*tensor.Tensor{g.Q, g.K, g.V}
	}},
	{"rows", func(m *making, n int) []*tensor.Tensor {
		x := m.numbers(tensor.Float32, n, 5)
		y := m.of(x.Softmax(1))
		norm, moments, err := tensor.LayerNorm(x, []int{5}, nil, nil, 1e-5)
		require.NoError(m.t, err)
		moments.Release()
		return []*tensor.Tensor{y, m.of(gradients.Softmax(x, y, 1)), m.of(norm, nil), m.of(x.Sum([]int{1}, false)),
			m.of(x.ArgMax(1, false)), m.of(x.CumSum(1))}
	}},
	{"columns", func(m *making, n int) []*tensor.Tensor {
		x := m.numbers(tensor.Float32, 5, n)
		return []*tensor.Tensor{m.of(x.Sum([]int{0}, false)), m.of(x.CumSum(0)), m.of(x.Softmax(0))}
	}},
	{"long rows", func(m *making, n int) []*tensor.Tensor {
		x := m.numbers(tensor.Float16, n/20, 1100) // a block each
		return []*tensor.Tensor{m.of(x.Softmax(1)), m.of(x.Max([]int{1}, false))}
	}},
	{"channels", func(m *making, n int) []*tensor.Tensor {
		x := m.numbers(tensor.Float32, 2, n, 2)
		moments, err := tensor.BatchMoments(x, nil, nil, 0.1, 1e-5)
		require.NoError(m.t, err)
		defer moments.Release()
		y := m.of(tensor.BatchNorm(x, moments, nil, nil))
		return append(m.both(gradients.BatchNormSums(x, x, moments)), y)
	}},
	{"planes", func(m *making, n int) []*tensor.Tensor {
		x := m.numbers(tensor.Float32, 1, n, 2, 2)
		out, from, err := x.MaxPool2d(tensor.Pool{Kernel: []int{2}})
		return append(m.both(out, from, err)[:1], m.of(x.AvgPool2d(tensor.Pool{Kernel: []int{2}})))
	}},
	{"matrices to turn", func(m *making, n int) []*tensor.Tensor {
		x := m.of(m.numbers(tensor.Float16, n/10, 16, 16).Transpose(1, 2)) // a block has several
		return []*tensor.Tensor{m.of(x.Contiguous())}
	}},
	{"indices", func(m *making, n int) []*tensor.Tensor {
		x, i := m.numbers(tensor.Float32, n, 3), m.indices(1000, n)
		table := m.numbers(tensor.Float32, 1000, 3)
		sums := m.of(tensor.Zeros(m.Exec, tensor.Float32, 1000, 3))
		require.NoError(m.t, sums.IndexAddInPlace(0, i, x))
		across := m.of(m.of(i.Reshape(n, 1)).Expand(n, 3))
		return []*tensor.Tensor{sums, m.of(table.IndexSelect(0, i)), m.of(table.ScatterAdd(0, across, x)), m.of(table.Gather(0, across))}
	}},
	{"indices of bags", func(m *making, n int) []*tensor.Tensor {
		table, i := m.numbers(tensor.Float32, 1000, 3), m.indices(1000, n)
		starts := m.of(tensor.Arange(m.Exec, 0, float64(n), 2, tensor.Int64))
		r := m.both(tensor.EmbeddingBag(table, i, starts, tensor.BagMean, -1))
		return []*tensor.Tensor{r[0], m.of(gradients.EmbeddingBag(r[0], i, starts, r[1], 1000, tensor.BagMean, -1))}
	}},
	{"rows to sort", func(m *making, n int) []*tensor.Tensor {
		x := m.numbers(tensor.Float32, n, 5)
		values, places, err := x.TopK(2, 1, true)
		return append(m.both(x.Sort(1, false)), m.both(values, places, err)...)
	}},
}

// manyOf runs those whose names begin with prefix, and compares with the host.
func manyOf(t *testing.T, b bench, n int, prefix string) {
	here := onHost(t)
	for _, c := range broad {
		if !strings.HasPrefix(c.name, prefix) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			want, got := &making{t: t, Exec: here.Exec}, &making{t: t, Exec: b.Exec}
			defer want.release()
			defer got.release()
			results := c.run(got, n)
			for i, w := range c.run(want, n) {
				require.Equal(t, w.Shape(), results[i].Shape())
				requireClose(t, values(t, w), values(t, results[i]), tolerance[w.DType()])
			}
		})
	}
}

// identities multiplies with identities: what comes out is what went in, so that the host need not compute it.
func identities(t *testing.T, b bench, n int) {
	m := &making{t: t, Exec: b.Exec}
	defer m.release()
	check := func(x, eye *tensor.Tensor) {
		same := m.of(m.of(x.MatMul(eye)).Eq(x))
		require.EqualValues(t, 1, values(t, m.of(same.All(nil, false)))[0], "%v times %v", x.Shape(), eye.Shape())
	}
	for _, dt := range []tensor.DType{tensor.Float16, tensor.Float32} {
		one := m.of(m.of(tensor.Eye(m.Exec, dt, 16)).Expand(n, 16, 16))
		check(m.numbers(dt, n, 16, 16), m.of(one.Contiguous()))                  // tiles, each a block or more of its own
		check(m.numbers(dt, 64*n, 2), m.of(tensor.Eye(m.Exec, dt, 2)))           // more rows of tiles than a grid has
		check(m.of(m.numbers(dt, 2, 64*n).T()), m.of(tensor.Eye(m.Exec, dt, 2))) // that lie as columns
	}
}

// The emulated driver needs minutes for 70,000: kernels/cuda has tests of the launches that such numbers are cut into.
func TestGrids_OfSomeBlocks(t *testing.T) {
	b, _ := onPTX(t)
	manyOf(t, b, fulltests.Or(200, 40), "")
	identities(t, b, fulltests.Or(70, 20))
}

func TestGPU_GridsOfMoreBlocksThanOneDimensionHas(t *testing.T) {
	b, n := onGPU(t), 70_000
	if testing.Short() {
		n = 200
	}
	t.Run("library", func(t *testing.T) {
		manyOf(t, b, n, "products")
		identities(t, b, n)
	})
	t.Run("own", func(t *testing.T) {
		useBLAS(t, b, false)
		manyOf(t, b, n, "")
		identities(t, b, n)
	})
}

// useBLAS turns the device's library on or off until the end of the test.
func useBLAS(t *testing.T, b bench, on bool) {
	t.Helper()
	d := b.Device().(interface{ UseBLAS(bool) })
	d.UseBLAS(on)
	t.Cleanup(func() { d.UseBLAS(true) })
}
