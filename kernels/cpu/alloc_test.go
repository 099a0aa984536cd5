package cpu

import (
	"testing"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// TestKernels_DoNotAllocate: what runs on the caller's goroutine takes its memory from pools.
func TestKernels_DoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector changes what is allocated")
	}
	table := map[op.ID]op.Row{}
	for _, r := range Rows() {
		table[r.Op] = r
	}
	x, h, idx := make([]float32, 3*64*64), make([]uint16, 3*64*64), make([]int64, 64)
	v := func(i int) op.View { return viewOf(t, dtype.Float32, x[i*4096:], 64, 64) }
	half := func(i int) op.View { return viewOf(t, dtype.Float16, h[i*4096:], 64, 64) }
	four := func(i int) op.View { return viewOf(t, dtype.Float32, x[i*4096:], 1, 4, 16, 64) }
	numbers := make([]uint8, 4096)
	image := func(i int) op.View { return viewOf(t, dtype.Float32, x[i*4096:], 1, 4, 32, 32) }
	halfImage := func(i int) op.View { return viewOf(t, dtype.Float16, h[i*4096:], 1, 4, 32, 32) }
	kernel := func(channels int) op.View { return viewOf(t, dtype.Float32, x[8192:], 4, channels, 3, 3) }
	same, depthwise := [8]int64{1, 1, 1, 1, 1, 1, 1}, [8]int64{1, 1, 1, 1, 1, 1, 4}
	ids := viewOf(t, dtype.Int64, make([]int64, 4096), 64, 64)
	one := func(o op.View) []op.View { return []op.View{o} }
	wide, gates := make([]float64, 1), viewOf(t, dtype.Float16, h, 16, 256)
	state := func(i int) op.View { return viewOf(t, dtype.Float16, h[4096+i*1024:], 16, 64) }
	for name, c := range map[string]*op.Call{
		"add":          {Op: op.Add, Out: one(v(0)), In: []op.View{v(1), v(2)}, F: [8]float64{1}},
		"add strided":  {Op: op.Add, Out: one(transposed(v(0))), In: []op.View{v(1), v(2)}, F: [8]float64{1}},
		"add half":     {Op: op.Add, Out: one(transposed(half(0))), In: []op.View{half(1), half(2)}, F: [8]float64{1}},
		"copy":         {Op: op.Copy, Out: one(v(0)), In: one(transposed(v(1)))},
		"cast":         {Op: op.Cast, Out: one(half(0)), In: one(v(1))},
		"gelu":         {Op: op.GELU, Out: one(v(0)), In: one(v(1))},
		"sum rows":     {Op: op.Sum, Out: one(viewOf(t, dtype.Float32, x, 64, 1)), In: one(v(1))},
		"sum columns":  {Op: op.Sum, Out: one(viewOf(t, dtype.Float32, x, 1, 64)), In: one(v(1))},
		"argmax":       {Op: op.ArgMax, Out: one(viewOf(t, dtype.Int64, idx, 64, 1)), In: one(v(1)), I: [8]int64{1}},
		"softmax":      {Op: op.Softmax, Out: one(v(0)), In: one(v(1))},
		"softmax half": {Op: op.Softmax, Out: one(half(0)), In: one(half(1))},
		"matmul":       {Op: op.MatMul, Out: one(v(0)), In: []op.View{v(1), transposed(v(2))}, F: [8]float64{1}},
		"matmul act":   {Op: op.MatMulAct, Out: one(v(0)), In: []op.View{v(1), transposed(v(2))}, F: [8]float64{1}, I: [8]int64{op.ActGELU}},
		"matmul half":  {Op: op.MatMul, Out: one(half(0)), In: []op.View{half(1), half(2)}, F: [8]float64{1}},
		"nll":          {Op: op.NLL, Out: one(viewOf(t, dtype.Float32, x, 64)), In: []op.View{v(1), viewOf(t, dtype.Int64, idx, 64)}},
		"nll grad":     {Op: op.NLLGrad, Out: one(v(0)), In: []op.View{viewOf(t, dtype.Float32, x[4096:], 64), viewOf(t, dtype.Int64, idx, 64)}},
		"attention":    {Op: op.Attention, Out: []op.View{four(0), viewOf(t, dtype.Float32, x, 1, 4, 16)}, In: []op.View{four(1), four(2), four(2)}, F: [8]float64{1}},
		"attention grad": {Op: op.AttentionGrad, Out: []op.View{four(0), four(0), four(0)}, F: [8]float64{1, 0.5},
			In: []op.View{four(1), four(1), four(2), four(2), four(2), viewOf(t, dtype.Float32, x, 1, 4, 16)}},
		"cross entropy": {Op: op.CrossEntropy, Out: []op.View{viewOf(t, dtype.Float32, x, 64), viewOf(t, dtype.Float32, x[64:], 2, 64), viewOf(t, dtype.Float32, x[192:], 64)},
			In: []op.View{v(1), viewOf(t, dtype.Int64, idx, 64)}},
		"cross entropy grad": {Op: op.CrossEntropyGrad, Out: one(half(1)), F: [8]float64{0.1},
			In: []op.View{viewOf(t, dtype.Float16, h, 64), half(1), viewOf(t, dtype.Int64, idx, 64), viewOf(t, dtype.Float32, x, 2, 64)}},
		"huber":        {Op: op.SmoothL1Grad, Out: one(v(0)), In: []op.View{v(1), v(1), v(2)}, F: [8]float64{1, 1}},
		"index select": {Op: op.IndexSelect, Out: one(v(0)), In: []op.View{v(1), viewOf(t, dtype.Int64, idx, 64)}},
		"index add":    {Op: op.IndexAdd, Out: one(v(0)), In: []op.View{v(1), viewOf(t, dtype.Int64, idx, 64)}},
		"normal":       {Op: op.Normal, Out: one(v(0)), F: [8]float64{0, 1}},
		"bernoulli":    {Op: op.Bernoulli, Out: one(half(0)), F: [8]float64{0.5}},
		"dropout":      {Op: op.Dropout, Out: one(half(0)), In: one(half(1)), F: [8]float64{0.5, 2}},
		"sgd":          {Op: op.SGDStep, Out: one(v(0)), In: one(v(1)), F: [8]float64{0.1}, I: [8]int64{1}},
		"rmsprop":      {Op: op.RMSPropStep, Out: []op.View{half(0), half(1)}, In: one(half(2)), F: [8]float64{0.1, 0.9, 0.1}, I: [8]int64{1}},
		"grad norm": {Op: op.GradNorm, Out: one(viewOf(t, dtype.Float64, wide)), In: []op.View{half(0), half(1)}, F: [8]float64{2},
			I: [8]int64{2}},
		"clip norm": {Op: op.ClipNorm, Out: one(half(0)), In: one(viewOf(t, dtype.Float64, wide)), F: [8]float64{1}, I: [8]int64{1}},
		"lstm cell": {Op: op.LSTMCell, Out: []op.View{gates, state(0), state(1)}, In: one(state(2))},
		"amp unscale": {Op: op.AmpUnscale, Out: []op.View{half(0), viewOf(t, dtype.Float32, x)}, In: one(viewOf(t, dtype.Float32, x[1:])),
			I: [8]int64{1}},
		"convolution":               {Op: op.Conv2D, Out: one(image(0)), In: []op.View{image(1), kernel(4), viewOf(t, dtype.Float32, x, 4)}, I: same},
		"convolution of its image":  {Op: op.Conv2DGradInput, Out: one(image(0)), In: []op.View{image(1), kernel(4)}, I: same},
		"convolution of its kernel": {Op: op.Conv2DGradWeight, Out: one(kernel(4)), In: []op.View{image(0), image(1)}, I: same},
		"convolution half": {Op: op.Conv2D, Out: one(halfImage(0)),
			In: []op.View{halfImage(1), viewOf(t, dtype.Float16, h[8192:], 4, 4, 3, 3)}, I: same},
		"depthwise convolution":               {Op: op.Conv2D, Out: one(image(0)), In: []op.View{image(1), kernel(1)}, I: depthwise},
		"depthwise convolution of its kernel": {Op: op.Conv2DGradWeight, Out: one(kernel(1)), In: []op.View{image(0), image(1)}, I: depthwise},
		"max pool": {Op: op.MaxPool2D, Out: []op.View{image(0), viewOf(t, dtype.Uint8, numbers, 1, 4, 32, 32)}, In: one(image(1)),
			I: [8]int64{3, 3, 1, 1, 1, 1, 1, 1}},
		"average pool half": {Op: op.AvgPool2D, Out: one(halfImage(0)), In: one(halfImage(1)), I: [8]int64{3, 3, 1, 1, 1, 1, 1}},
		"resampling":        {Op: op.UpsampleBilinear2D, Out: one(image(0)), In: one(image(1)), F: [8]float64{1, 1}},
		"arange":            {Op: op.Arange, Out: one(viewOf(t, dtype.Float32, x, 4096)), F: [8]float64{0, 1}},
		"lerp":              {Op: op.Lerp, Out: one(v(0)), In: []op.View{v(1), v(2), v(1)}},
		"logsumexp":         {Op: op.LogSumExp, Out: one(viewOf(t, dtype.Float32, x, 64, 1)), In: one(v(1))},
		"cumsum":            {Op: op.CumSum, Out: one(v(0)), In: one(v(1))},
		"cumprod gradient":  {Op: op.CumProdGrad, Out: one(v(0)), In: []op.View{v(1), v(2), v(1)}},
		"sort":              {Op: op.Sort, Out: []op.View{v(0), ids}, In: one(v(1))},
		"sort half":         {Op: op.Sort, Out: []op.View{transposed(half(0)), ids}, In: one(half(1))},
		"topk":              {Op: op.TopK, Out: []op.View{viewOf(t, dtype.Float32, x, 64, 4), viewOf(t, dtype.Int64, make([]int64, 256), 64, 4)}, In: one(v(1))},
		"tril":              {Op: op.Tril, Out: one(v(0)), In: one(v(1))},
		"gather":            {Op: op.Gather, Out: one(v(0)), In: []op.View{v(1), ids}},
	} {
		f := table[c.Op].Funcs[c.Key()]
		got := testing.AllocsPerRun(50, func() {
			if err := f(c); err != nil {
				t.Fatal(err)
			}
		})
		require.Zero(t, got, name)
	}
}

// Also where a type has a kernel of its own, as scratch memory on the stack is on the heap as soon as a function that is called by a variable gets it.
func TestKernels_OfElementsDoNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector changes what is allocated")
	}
	const n = 4096
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	words := make([]uint64, 5*n)
	view := func(i int, d dtype.DType) op.View { return viewOf(t, d, words[i*n:], n) }
	tried := 0
	for _, r := range Rows() {
		outs, ins, variable := r.Op.Arity()
		if !r.Op.Elementwise() || variable || ins == 0 {
			continue
		}
		for _, d := range r.Op.Types() {
			c := &op.Call{Op: r.Op, Stream: dev.DefaultStream(), F: [8]float64{1, 1, 1, 1, 1, 1, 1, 1}, I: [8]int64{1, 1, 1, 1, 1, 1, 1, 1}}
			for i := range outs {
				c.Out = append(c.Out, view(i, d))
			}
			for i := range ins {
				c.In = append(c.In, view(outs+i, d))
			}
			if op.Check(c) != nil { // comparisons write bools, and choices read them
				c.Out[0].DType = dtype.Bool
			}
			if op.Check(c) != nil {
				c.Out[0].DType, c.In[0].DType = d, dtype.Bool
			}
			f := r.Funcs[c.Key()]
			if op.Check(c) != nil || f == nil {
				continue
			}
			tried++
			got := testing.AllocsPerRun(10, func() {
				if err := f(c); err != nil {
					t.Fatal(err)
				}
			})
			require.Zero(t, got, "%s of %s", r.Op, d)
		}
	}
	require.Greater(t, tried, 400)
}
