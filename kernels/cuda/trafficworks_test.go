package cuda_test

import (
	"testing"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/tensor"
)

var (
	gradients = tensor.Gradients(training.Key{})
	steps     = tensor.Steps(training.Key{})
)

// The works of TestTraffic: sizes are large enough that what a kernel does once for each block does not count.

func (b *bench) elementwise() []work {
	const n = 1 << 18
	f32, f16, bf16 := tensor.Float32, tensor.Float16, tensor.BFloat16
	x, y, h, k := b.of(f32, 512, 512), b.of(f32, 512, 512), b.of(f16, 512, 512), b.of(bf16, 512, 512)
	row, column := b.of(f32, 512), b.of(f32, 512, 1)
	transposed, transposedHalf := b.keep(x.Transpose(0, 1)), b.keep(h.Transpose(0, 1))
	odd := b.keep(b.of(f32, n+1).Narrow(0, 1, n))
	params := []*tensor.Tensor{b.of(f32, n), b.of(f32, 1000), b.of(f32, 333, 65)}
	grads, m, v := b.like(params), b.like(params), b.like(params)
	for i := range v {
		v[i] = b.keep(v[i].Abs())
	}
	total := n + 1000 + 333*65
	found, inv := b.keep(tensor.Zeros(b.e, f32)), b.keep(tensor.Ones(b.e, f32))
	return []work{
		{name: "add, float32", bytes: 12 * n, run: once(func() (*tensor.Tensor, error) { return x.Add(y) })},
		{name: "add, float16", bytes: 6 * n, run: once(func() (*tensor.Tensor, error) { return h.Add(h) }), again: 1.1},
		{name: "add a row, float32", bytes: 8 * n, run: once(func() (*tensor.Tensor, error) { return x.Add(row) }), again: 1.6},
		{name: "add a column, float32", bytes: 8 * n, run: once(func() (*tensor.Tensor, error) { return x.Add(column) }), again: 1.6},
		{name: "add a transpose, float32", bytes: 12 * n, run: once(func() (*tensor.Tensor, error) { return x.Add(transposed) }), scatter: 9, again: 9},
		{name: "times a number, from an odd element, float32", bytes: 8 * n, run: once(func() (*tensor.Tensor, error) { return odd.MulScalar(2) }), scatter: 1.2, again: 1.2},
		{name: "gelu, bfloat16", bytes: 4 * n, run: once(k.GELU)},
		{name: "gelu's gradient, float16", bytes: 6 * n, run: once(func() (*tensor.Tensor, error) { return gradients.GELU(h, h) })},
		{name: "float32 to float16", bytes: 6 * n, run: once(func() (*tensor.Tensor, error) { return x.To(f16) })},
		{name: "contiguous copy of a transpose, float32", bytes: 8 * n, run: once(transposed.Contiguous)},
		{name: "contiguous copy of a transpose, float16", bytes: 4 * n, run: once(transposedHalf.Contiguous)},
		{name: "dropout, float32", bytes: 9 * n, run: once(func() (*tensor.Tensor, error) { return x.Dropout(b.gen, 0.5) })},
		{name: "normal random numbers, float32", bytes: 4 * n, run: once(func() (*tensor.Tensor, error) { return tensor.RandN(b.e, b.gen, f32, n) }), scatter: 3, again: 3},
		{name: "adam, three tensors, float32", bytes: 28 * total, run: func() error {
			return steps.Adam(params, grads, m, v, nil, training.Adam{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Step: 1}, training.Guard[*tensor.Tensor]{})
		}},
		{name: "unscale, three tensors, float32", bytes: 8 * total, run: func() error { return steps.Unscale(grads, found, inv) }},
	}
}

// like makes tensors of the same shapes.
func (b *bench) like(ts []*tensor.Tensor) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(ts))
	for i, x := range ts {
		out[i] = b.of(x.DType(), x.Shape()...)
	}
	return out
}

func (b *bench) rows() []work {
	const rows, width, n = 256, 1024, 256 * 1024
	f32, f16 := tensor.Float32, tensor.Float16
	x, g, h := b.of(f32, rows, width), b.of(f32, rows, width), b.of(f16, rows, width)
	w, bias, hw := b.of(f32, width), b.of(f32, width), b.of(f16, width)
	classes, few := b.classes(rows, width), b.classes(2048, 500)
	table := b.of(f32, 500, 128)
	soft := b.keep(x.Softmax(1))
	normed, moments, err := tensor.LayerNorm(x, []int{width}, w, bias, 1e-5)
	b.keep(normed, err)
	b.keep(moments.Mean, nil)
	b.keep(moments.Rstd, nil)
	image := b.of(f32, 8, 32, 32, 32)
	batch, err := tensor.BatchMoments(image, nil, nil, 0.1, 1e-5)
	for _, m := range []*tensor.Tensor{batch.Mean, batch.Rstd, batch.Var} {
		if m != nil {
			b.keep(m, err)
		}
	}
	cw, cb := b.of(f32, 32), b.of(f32, 32)
	return []work{
		{name: "sum of all, float32", bytes: 4 * n, run: once(func() (*tensor.Tensor, error) { return x.Sum(nil, false) })},
		{name: "sum of rows, float32", bytes: 4 * n, run: once(func() (*tensor.Tensor, error) { return x.Sum([]int{1}, false) })},
		{name: "sum of columns, float32", bytes: 4 * n, run: once(func() (*tensor.Tensor, error) { return x.Sum([]int{0}, false) })},
		{name: "sum of columns, float16", bytes: 2 * n, run: once(func() (*tensor.Tensor, error) { return h.Sum([]int{0}, false) }), scatter: 1.25, again: 1.3},
		{name: "running sum of rows, float32", bytes: 8 * n, run: once(func() (*tensor.Tensor, error) { return x.CumSum(1) }), scatter: 4, again: 4},
		{name: "softmax, float32", bytes: 8 * n, run: once(func() (*tensor.Tensor, error) { return x.Softmax(1) })},
		{name: "softmax, float16", bytes: 4 * n, run: once(func() (*tensor.Tensor, error) { return h.Softmax(1) })},
		{name: "softmax's gradient, float32", bytes: 12 * n, run: once(func() (*tensor.Tensor, error) { return gradients.Softmax(g, soft, 1) })},
		{name: "cross entropy, float32", bytes: 4 * n, run: func() error {
			loss, lse, weight, err := tensor.CrossEntropy(x, classes, tensor.ClassLoss{IgnoreIndex: -100})
			released(loss, lse, weight)
			return err
		}},
		{name: "layer norm, float32", bytes: 8 * n, run: func() error {
			out, m, err := tensor.LayerNorm(x, []int{width}, w, bias, 1e-5)
			released(out, m.Mean, m.Rstd)
			return err
		}, again: 2.1},
		{name: "layer norm, float16", bytes: 4 * n, run: func() error {
			out, m, err := tensor.LayerNorm(h, []int{width}, hw, hw, 1e-5)
			released(out, m.Mean, m.Rstd)
			return err
		}, again: 2.1},
		{name: "layer norm's gradient, float32", bytes: 12 * n, run: once(func() (*tensor.Tensor, error) { return gradients.LayerNorm(g, x, []int{width}, moments, w) }), again: 2.1},
		{name: "layer norm's sums, float32", bytes: 8 * n, run: func() error {
			dw, db, err := gradients.LayerNormSums(g, x, []int{width}, moments)
			released(dw, db)
			return err
		}, banks: 5},
		{name: "batch norm, float32", bytes: 8 * 8 * 32 * 1024, run: once(func() (*tensor.Tensor, error) { return tensor.BatchNorm(image, batch, cw, cb) }), again: 1.2},
		{name: "batch norm's sums, float32", bytes: 8 * 8 * 32 * 1024, run: func() error {
			dw, db, err := gradients.BatchNormSums(image, image, batch)
			released(dw, db)
			return err
		}, banks: 1.7},
		{name: "max pool of 2 by 2, float32", bytes: (4 + 1 + 2) * 8 * 32 * 1024, run: func() error {
			out, from, err := image.MaxPool2d(tensor.Pool{Kernel: []int{2}, Stride: []int{2}})
			released(out, from)
			return err
		}, scatter: 2.1, again: 2.1},
		{name: "rows of a table, float32", bytes: 8 * 2048 * 128, run: once(func() (*tensor.Tensor, error) { return table.IndexSelect(0, few) })},
	}
}

func (b *bench) products() []work {
	const n = 256
	f32, f16 := tensor.Float32, tensor.Float16
	x, h := b.of(f32, n, n), b.of(f16, n, n)
	transposed := b.keep(h.Transpose(0, 1))
	image, weights := b.of(f16, 2, 32, 32, 32), b.of(f16, 32, 32, 3, 3)
	big, float := b.of(f16, 512, 512), b.of(f32, 512, 512)
	bigTransposed := b.keep(big.Transpose(0, 1))
	five := b.of(tensor.BFloat16, 5, 512, 512)
	fiveTransposed := b.keep(five.Transpose(1, 2))
	in := func(tile string, f func() (*tensor.Tensor, error)) func() error {
		return func() error {
			var err error
			b.t.Run(tile, func(t *testing.T) { // until whose end the tile is preferred
				cuda.PreferTile(t, tile)
				err = once(f)()
			})
			return err
		}
	}
	tiled := func(tile string, a, c *tensor.Tensor) func() error {
		return in(tile, func() (*tensor.Tensor, error) { return a.MatMul(c) })
	}
	rows, weight, bias := b.of(f16, 2560, 512), b.of(f16, 512, 512), b.of(f16, 512)
	longRows, narrow, narrowBias := b.of(tensor.BFloat16, 16384, 256), b.of(tensor.BFloat16, 64, 256), b.of(tensor.BFloat16, 64)
	const often = 1000 // products read their operands many times: that is what shared memory is for
	return []work{
		{name: "product of 256, float32", bytes: 12 * n * n, run: once(func() (*tensor.Tensor, error) { return x.MatMul(x) }), again: often, scatter: 1.5, banks: 1.5},
		{name: "product of 256, float16", bytes: 6 * n * n, run: once(func() (*tensor.Tensor, error) { return h.MatMul(h) }), again: often, mma: 8},
		{name: "product of 256, second transposed, float16", bytes: 6 * n * n, run: once(func() (*tensor.Tensor, error) { return h.MatMul(transposed) }), again: often, mma: 8},
		{name: "product of 256, first transposed, float16", bytes: 6 * n * n, run: once(func() (*tensor.Tensor, error) { return transposed.MatMul(h) }), again: often, mma: 8},
		{name: "convolution of 3 by 3, float16", bytes: 2 * (2*2*32*1024 + 32*32*9), run: once(func() (*tensor.Tensor, error) {
			return tensor.Conv2d(image, weights, nil, tensor.Conv{Padding: []int{1}})
		}), again: often, scatter: 20, banks: 1.1},
		{name: "product of 512 in small tiles, float16", bytes: 6 * 512 * 512, run: tiled("small", big, big), again: often, mma: 10},
		{name: "product of 512 in middle tiles, float16", bytes: 6 * 512 * 512, run: tiled("middle", big, big), again: often, mma: 6.5},
		{name: "product of 512 in large tiles, float16", bytes: 6 * 512 * 512, run: tiled("large", big, big), again: often, mma: 6},
		{name: "product of 512 in large tiles, both transposed, float16", bytes: 6 * 512 * 512, run: tiled("large", bigTransposed, bigTransposed), again: often, mma: 6},
		// Enough blocks for unsplit sums.
		{name: "5 products of 512 in large tiles, bfloat16", bytes: 5 * 6 * 512 * 512, run: tiled("large", five, five), again: often, mma: 3},
		{name: "5 products of 512 in middle tiles, second transposed, bfloat16", bytes: 5 * 6 * 512 * 512, run: tiled("middle", five, fiveTransposed), again: often, mma: 3.5},
		{name: "linear layer of 512, 2560 rows, in large tiles, float16", bytes: 2 * (2*2560*512 + 512*512 + 512),
			run: in("large", func() (*tensor.Tensor, error) { return tensor.Linear(rows, weight, bias) }), again: often, mma: 4},
		{name: "linear layer of 256 to 64, 16384 rows, bfloat16", bytes: 2 * (16384*(256+64) + 64*256 + 64),
			run: once(func() (*tensor.Tensor, error) { return tensor.Linear(longRows, narrow, narrowBias) }), again: 1.3, mma: 3.2},
		{name: "product of 512 in large tiles, float32", bytes: 12 * 512 * 512, run: tiled("float", float, float), again: often, scatter: 1.6},
	}
}
