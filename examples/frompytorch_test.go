package examples

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// What docs/from-pytorch.md shows; TestFromPyTorch_ShowsCodeThatRuns compares the two.

func trainingLoop(dev device.Device, batches *data.Loader, epochs int) error {
	model := nn.Sequential(
		nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.1),
		nn.Linear(256, 10))
	if err := model.To(dev); err != nil {
		return err
	}
	defer model.Release()
	opt := optim.AdamW(model.Parameters(), optim.LR(1e-3))
	defer opt.Release()
	sched := optim.StepLR(opt, 10, 0.5)

	step := func(x, y *tensor.Tensor) error {
		g := autograd.NewGraph(dev)
		defer g.Release()
		logits := model.Forward(g.Input(x))
		loss := logits.CrossEntropy(g.Input(y))
		if err := loss.Backward(); err != nil {
			return err
		}
		if _, err := optim.ClipGradNorm(model.Parameters(), 1); err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		opt.ZeroGrad()
		return nil
	}
	for range epochs {
		for x, y := range batches.Batches() {
			if err := step(x, y); err != nil {
				return err
			}
		}
		if err := batches.Err(); err != nil {
			return err
		}
		if err := sched.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Net is a module of the program's own.
type Net struct {
	nn.Base
	FC1, FC2 *nn.LinearLayer
	Drop     *nn.DropoutLayer
}

func NewNet() *Net {
	return nn.New(&Net{FC1: nn.Linear(784, 256), FC2: nn.Linear(256, 10), Drop: nn.Dropout(0.1)})
}

func (n *Net) Forward(x *autograd.Variable) *autograd.Variable {
	return n.Scope(x, func(*autograd.Graph) *autograd.Variable {
		return n.FC2.Forward(n.Drop.Forward(n.FC1.Forward(x).ReLU()))
	})
}

func mixedPrecision(dev device.Device, model nn.Layer, opt *optim.Grouped, x, y *tensor.Tensor) error {
	scaler := amp.NewGradScaler() // one for the whole run
	defer scaler.Release()
	step := func() error {
		g := autograd.NewGraph(dev, amp.Autocast(tensor.Float16))
		defer g.Release()
		loss := model.Forward(g.Input(x)).CrossEntropy(g.Input(y))
		if err := scaler.Backward(loss); err != nil {
			return err
		}
		if err := scaler.Step(opt); err != nil {
			return err
		}
		opt.ZeroGrad()
		return scaler.Update()
	}
	return step()
}

// pieces trains an LSTM on the pieces of a long sequence, in order.
func pieces(dev device.Device, lstm *nn.RNNLayer, head *nn.LinearLayer, opt *optim.Grouped, xs, ys []*tensor.Tensor) error {
	var h, c *tensor.Tensor // the state, which the program owns between two graphs
	defer func() { h.Release(); c.Release() }()
	piece := func(x, y *tensor.Tensor) error {
		g := autograd.NewGraph(dev)
		defer g.Release()
		var h0, c0 *autograd.Variable // nil is a state of zeros
		if h != nil {
			h0, c0 = g.Input(h), g.Input(c) // leaves: no gradient goes further back
		}
		out, hn, cn := lstm.ForwardState(g.Input(x), h0, c0)
		hn.Keep() // or Backward would release them on its way
		cn.Keep()
		loss := head.Forward(out).MSELoss(g.Input(y), autograd.MeanReduction)
		if err := loss.Backward(); err != nil {
			return err
		}
		h.Release()
		c.Release()
		var errH, errC error
		h, errH = hn.Take()
		c, errC = cn.Take()
		return errors.Join(errH, errC)
	}
	for i := range xs {
		if err := piece(xs[i], ys[i]); err != nil {
			return err
		}
		if err := opt.Step(); err != nil {
			return err
		}
		opt.ZeroGrad()
	}
	return nil
}

// adversarial is a step of a GAN: the discriminator's, and then the generator's.
func adversarial(dev device.Device, gen, disc nn.Layer, optG, optD *optim.Grouped, images *tensor.Tensor) error {
	g := autograd.NewGraph(dev)
	defer g.Release()
	real := g.Input(images)
	fake := gen.Forward(g.RandN(tensor.Float32, real.Dim(0), 4))

	onReal, onFake := disc.Forward(real), disc.Forward(fake.Detach()) // the generator gets no gradient
	lossD := onReal.BCEWithLogitsLoss(onReal.OnesLike(), autograd.MeanReduction).
		Add(onFake.BCEWithLogitsLoss(onFake.MulScalar(0), autograd.MeanReduction))
	if err := lossD.Backward(); err != nil {
		return err
	}
	if err := optD.Step(); err != nil {
		return err
	}

	again := disc.Forward(fake)
	lossG := again.BCEWithLogitsLoss(again.OnesLike(), autograd.MeanReduction)
	if err := lossG.Backward(); err != nil {
		return err
	}
	if err := optG.Step(); err != nil {
		return err
	}
	optG.ZeroGrad()
	optD.ZeroGrad() // also what the generator's loss left in the discriminator
	return nil
}

func accumulated(dev device.Device, model nn.Layer, opt *optim.Grouped, xs, ys []*tensor.Tensor) error {
	part := func(x, y *tensor.Tensor) error {
		g := autograd.NewGraph(dev) // each part has its own, so that only one is in memory
		defer g.Release()
		loss := model.Forward(g.Input(x)).CrossEntropy(g.Input(y))
		return loss.DivScalar(float64(len(xs))).Backward() // adds to the gradients
	}
	for i := range xs {
		if err := part(xs[i], ys[i]); err != nil {
			return err
		}
	}
	if err := opt.Step(); err != nil {
		return err
	}
	opt.ZeroGrad()
	return nil
}

func evaluate(dev device.Device, model nn.Layer, batches *data.Loader) (accuracy float64, err error) {
	nn.Eval(model)
	defer nn.Train(model)
	right, all := 0.0, 0
	count := func(x, y *tensor.Tensor) error {
		g := autograd.NewGraph(dev, autograd.NoGrad()) // nothing is saved for backward
		defer g.Release()
		found := model.Forward(g.Input(x)).ArgMax(-1, false)
		n, err := found.Eq(g.Input(y)).CountNonzero().Item() // waits for the device
		right, all = right+n, all+y.Len()
		return err
	}
	for x, y := range batches.Batches() {
		if err := count(x, y); err != nil {
			return 0, err
		}
	}
	return right / float64(all), batches.Err()
}

// greedy goes on from the state h, which it takes over.
func greedy(dev device.Device, decoder func(token float64, h *autograd.Variable) (logits, next *autograd.Variable), h *tensor.Tensor, steps int) ([]float64, error) {
	defer func() { h.Release() }()
	token, tokens := 0.0, []float64(nil)
	step := func() (err error) {
		g := autograd.NewGraph(dev, autograd.NoGrad())
		defer g.Release()
		logits, next := decoder(token, g.Input(h))
		if token, err = logits.ArgMax(-1, false).Item(); err != nil {
			return err
		}
		after, err := next.Take() // it outlives the graph
		if err != nil {
			return err
		}
		h.Release()
		h = after
		return nil
	}
	for range steps {
		if err := step(); err != nil {
			return tokens, err
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

func tied() (embed *nn.EmbeddingLayer, head *nn.LinearLayer) {
	embed, head = nn.Embedding(1000, 64), nn.Linear(64, 1000, nn.NoBias())
	head.Weight = embed.Weight // before To, and before the optimizer is made
	return embed, head
}

func freeze(model *nn.SequentialModule) *optim.Grouped {
	for _, p := range model.At(0).Parameters() {
		p.SetRequiresGrad(false)
	}
	return optim.AdamW(model.Parameters()) // passes over parameters without a gradient
}

// initialise starts a model that is made once more, as model.apply(f) does in PyTorch.
func initialise(model nn.Module, gen *tensor.Generator) error {
	for m := range nn.Modules(model) {
		l, ok := m.(*nn.LinearLayer)
		if !ok {
			continue
		}
		if err := nn.Init(l.Weight, nn.XavierUniform(nn.ReLUGain), gen); err != nil {
			return err
		}
		if l.Bias == nil {
			continue
		}
		if err := nn.Init(l.Bias, nn.Zeros, gen); err != nil {
			return err
		}
	}
	return nil
}

// ActNorm shifts and scales each feature of [N, features]; Start chooses how.
type ActNorm struct {
	nn.Base
	Shift, Scale *autograd.Parameter
}

func NewActNorm(features int) *ActNorm {
	return nn.New(&ActNorm{
		Shift: autograd.DeclareParameter("shift", nn.Zeros, features),
		Scale: autograd.DeclareParameter("scale", nn.Ones, features),
	})
}

func (a *ActNorm) Forward(x *autograd.Variable) *autograd.Variable {
	return a.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		return x.Add(g.Param(a.Shift)).Mul(g.Param(a.Scale))
	})
}

// Start makes this batch have mean 0 and deviation 1: after To, and before the first step.
func (a *ActNorm) Start(dev device.Device, batch *tensor.Tensor) error {
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	x := g.Input(batch)
	mean, std := x.Mean([]int{0}, false), x.Std([]int{0}, 0, false)
	if err := set(a.Shift, mean.Neg()); err != nil {
		return err
	}
	return set(a.Scale, std.AddScalar(1e-6).Reciprocal())
}

// set writes a value into a parameter, where it is.
func set(p *autograd.Parameter, v *autograd.Variable) error {
	t, err := v.Tensor() // lent by the graph
	if err != nil {
		return err
	}
	return p.Tensor().CopyFrom(t)
}

func saveAndLoad(ctx context.Context, w io.Writer, r io.Reader, path string, model nn.Module, opt *optim.Grouped, epoch int) error {
	// The weights alone, in the safetensors format, under PyTorch's names.
	if err := nn.Save(w, model); err != nil {
		return err
	}
	if err := nn.Load(r, model); err != nil {
		return err
	}
	// The state of a run: all of it is written, and read, or nothing.
	run := checkpoint.New().Add("model", checkpoint.Module(model)).
		Add("optimizer", checkpoint.Optimizer(opt)).Add("epoch", checkpoint.Value(&epoch))
	if err := run.WriteFile(ctx, path); err != nil {
		return err
	}
	return run.ReadFile(ctx, path)
}

func mistaken(dev device.Device) error {
	g := autograd.NewGraph(dev)
	defer g.Release()
	x := g.Ones(tensor.Float32, 2, 3)
	y := x.MM(x).ReLU().Sum(nil, false) // the shapes do not fit; what comes after does nothing
	_, err := y.Item()                  // the same error: g.Err() has it too
	var wrong *tensor.ShapeError
	if errors.As(err, &wrong) {
		return err // names the operation, the shapes, and this file and line
	}
	return nil
}

// rig is a device of the test's own, at whose end no block may be in use.
func rig(t *testing.T) (device.Device, tensor.Exec) {
	dev := host.New()
	t.Cleanup(func() { require.NoError(t, errors.Join(memory.Drop(dev), dev.Close())) })
	e, err := tensor.On(dev)
	require.NoError(t, err)
	return dev, e
}

// placed gives a module its first values, until the test ends.
func placed[M nn.Module](t *testing.T, dev device.Device, m M) M {
	require.NoError(t, m.To(dev, nn.Seed(1)))
	t.Cleanup(m.Release)
	return m
}

func released(t *testing.T, opt *optim.Grouped) *optim.Grouped {
	t.Cleanup(opt.Release)
	return opt
}

func drawn(t *testing.T, e tensor.Exec, seed uint64, shape ...int) *tensor.Tensor {
	x, err := tensor.RandN(e, tensor.NewGenerator(seed), tensor.Float32, shape...)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

func classes(t *testing.T, e tensor.Exec, c ...int64) *tensor.Tensor {
	y, err := tensor.FromSlice(e, c, len(c))
	require.NoError(t, err)
	t.Cleanup(y.Release)
	return y
}

// digits are batches of images whose brightest pixel tells the class.
func digits(t *testing.T, dev device.Device) *data.Loader {
	const n = 128
	images, labels := make([]float32, n*784), make([]int64, n)
	for i := range labels {
		labels[i] = int64(i % 10)
		images[i*784+i%10] = 1
	}
	set, err := data.Slices(images, []int{784}, labels, nil)
	require.NoError(t, err)
	return data.NewLoader(dev, set, 32)
}

func valueOf(t *testing.T, p *autograd.Parameter) []float64 {
	v, err := p.Tensor().Float64s()
	require.NoError(t, err)
	return v
}

func TestFromPyTorch_LoopsTrainAndLeaveNothing(t *testing.T) {
	dev, e := rig(t)
	require.NoError(t, trainingLoop(dev, digits(t, dev), 2))

	model := placed(t, dev, nn.Sequential(nn.Linear(3, 2)))
	opt := released(t, optim.SGD(model.Parameters(), optim.LR(0.1)))
	x, y := drawn(t, e, 1, 4, 3), classes(t, e, 0, 1, 1, 0)
	before := valueOf(t, model.Parameters()[0])
	require.NoError(t, mixedPrecision(dev, model, opt, x, y))
	require.NotEqual(t, before, valueOf(t, model.Parameters()[0]))

	net := placed(t, dev, NewNet())
	accuracy, err := evaluate(dev, net, digits(t, dev))
	require.NoError(t, err)
	require.True(t, accuracy > 0 && accuracy < 1, "%v", accuracy)
	require.True(t, net.Drop.Training(), "the mode is back")
}

func TestFromPyTorch_PartsOfABatchAddUpToIt(t *testing.T) {
	dev, e := rig(t)
	whole, parts := placed(t, dev, nn.Sequential(nn.Linear(3, 2))), placed(t, dev, nn.Sequential(nn.Linear(3, 2)))
	x, y := drawn(t, e, 1, 4, 3), classes(t, e, 0, 1, 1, 0)
	var xs, ys []*tensor.Tensor
	for i := range 2 {
		a, err := x.Narrow(0, 2*i, 2)
		require.NoError(t, err)
		t.Cleanup(a.Release)
		b, err := y.Narrow(0, 2*i, 2)
		require.NoError(t, err)
		t.Cleanup(b.Release)
		xs, ys = append(xs, a), append(ys, b)
	}
	require.NoError(t, accumulated(dev, whole, released(t, optim.SGD(whole.Parameters(), optim.LR(0.1))), []*tensor.Tensor{x}, []*tensor.Tensor{y}))
	require.NoError(t, accumulated(dev, parts, released(t, optim.SGD(parts.Parameters(), optim.LR(0.1))), xs, ys))
	require.InDeltaSlice(t, valueOf(t, whole.Parameters()[0]), valueOf(t, parts.Parameters()[0]), 1e-6)
}

func TestFromPyTorch_AStateGoesFromGraphToGraph(t *testing.T) {
	dev, e := rig(t)
	lstm, head := placed(t, dev, nn.LSTM(3, 4)), placed(t, dev, nn.Linear(4, 1))
	opt := released(t, optim.SGD(append(lstm.Parameters(), head.Parameters()...), optim.LR(0.1)))
	var xs, ys []*tensor.Tensor
	for i := range 3 {
		xs, ys = append(xs, drawn(t, e, uint64(i), 5, 2, 3)), append(ys, drawn(t, e, uint64(9+i), 5, 2, 1))
	}
	before := valueOf(t, lstm.Parameters()[0])
	require.NoError(t, pieces(dev, lstm, head, opt, xs, ys))
	require.NotEqual(t, before, valueOf(t, lstm.Parameters()[0]))
}

func TestFromPyTorch_EachOptimizerChangesItsModelAlone(t *testing.T) {
	dev, e := rig(t)
	gen, disc := placed(t, dev, nn.Sequential(nn.Linear(4, 2))), placed(t, dev, nn.Sequential(nn.Linear(2, 1)))
	optG, optD := released(t, optim.SGD(gen.Parameters(), optim.LR(0.1))), released(t, optim.SGD(disc.Parameters(), optim.LR(0)))
	g0, d0 := valueOf(t, gen.Parameters()[0]), valueOf(t, disc.Parameters()[0])
	require.NoError(t, adversarial(dev, gen, disc, optG, optD, drawn(t, e, 1, 8, 2)))
	require.NotEqual(t, g0, valueOf(t, gen.Parameters()[0]))
	require.Equal(t, d0, valueOf(t, disc.Parameters()[0]), "its learning rate is 0")
	for _, p := range append(gen.Parameters(), disc.Parameters()...) {
		require.Nil(t, p.Grad())
	}
	optD.SetLR(0.1)
	require.NoError(t, adversarial(dev, gen, disc, optG, optD, drawn(t, e, 2, 8, 2)))
	require.NotEqual(t, d0, valueOf(t, disc.Parameters()[0]))
}

func TestFromPyTorch_TiedAndFrozenParameters(t *testing.T) {
	dev, e := rig(t)
	embed, head := tied()
	model := placed(t, dev, nn.Sequential(embed, head))
	require.Len(t, model.Parameters(), 1)

	two := placed(t, dev, nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)))
	opt := released(t, freeze(two))
	frozen, free := two.Parameters()[0], two.Parameters()[2]
	w, v := valueOf(t, frozen), valueOf(t, free)
	require.NoError(t, accumulated(dev, two, opt, []*tensor.Tensor{drawn(t, e, 1, 2, 3)}, []*tensor.Tensor{classes(t, e, 0, 1)}))
	require.Equal(t, w, valueOf(t, frozen))
	require.NotEqual(t, v, valueOf(t, free))
}

func TestFromPyTorch_WhatIsSavedIsLoaded(t *testing.T) {
	dev, _ := rig(t)
	model := placed(t, dev, nn.Sequential(nn.Linear(3, 2)))
	opt := released(t, optim.AdamW(model.Parameters()))
	var file bytes.Buffer
	require.NoError(t, saveAndLoad(context.Background(), &file, &file, filepath.Join(t.TempDir(), "run.safetensors"), model, opt, 3))
}

func TestFromPyTorch_ModelsStartOnceMore(t *testing.T) {
	dev, e := rig(t)
	model := placed(t, dev, nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, nn.NoBias())))
	require.NoError(t, initialise(model, tensor.NewGenerator(3)))
	first := model.At(0).(*nn.LinearLayer)
	v, err := first.Bias.Tensor().Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0, 0}, v)
	drawnFirst, err := first.Weight.Tensor().Float64s()
	require.NoError(t, err)
	require.NoError(t, initialise(model, tensor.NewGenerator(3)))
	again, err := first.Weight.Tensor().Float64s()
	require.NoError(t, err)
	require.Equal(t, drawnFirst, again)

	norm := placed(t, dev, NewActNorm(2))
	x, err := tensor.FromSlice(e, []float32{1, 10, 3, 30}, 2, 2)
	require.NoError(t, err)
	defer x.Release()
	require.NoError(t, norm.Start(dev, x))
	g := autograd.NewGraph(dev, autograd.NoGrad())
	defer g.Release()
	y, err := norm.Forward(g.Input(x)).Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, []float64{-1, -1, 1, 1}, y, 1e-5)
}

func TestFromPyTorch_AMistakeIsOneErrorThatSaysWhere(t *testing.T) {
	dev, _ := rig(t)
	err := mistaken(dev)
	require.ErrorContains(t, err, "[2, 3]")
	require.ErrorContains(t, err, "frompytorch_test.go:")
}

var fenced = regexp.MustCompile("(?s)```(go|python)\n(.*?)```")

func TestFromPyTorch_AGraphForEachStepOfALoop(t *testing.T) {
	dev := host.New()
	defer func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	h, err := tensor.FromSlice(e, []float32{0, 1, 0})
	require.NoError(t, err)
	turns := func(token float64, h *autograd.Variable) (logits, next *autograd.Variable) {
		return h, h.Roll([]int{1}, []int{0})
	}
	tokens, err := greedy(dev, turns, h, 4)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 0, 1}, tokens)
	require.Zero(t, memory.Allocated(dev), "the last state too")
}

func TestFromPyTorch_ShowsCodeThatRuns(t *testing.T) {
	doc, err := os.ReadFile("../docs/from-pytorch.md")
	require.NoError(t, err)
	tested, err := os.ReadFile("frompytorch_test.go")
	require.NoError(t, err)
	python, err := os.ReadFile("testdata/frompytorch.py")
	require.NoError(t, err)
	// Blocks stand in the document as far left as they may.
	margin := regexp.MustCompile(`(?m)^\t+`)
	flat := func(s string) string { return margin.ReplaceAllString(s, "") }
	source := map[string]string{"go": flat(string(tested)), "python": string(python)}
	blocks := fenced.FindAllStringSubmatch(string(doc), -1)
	require.Len(t, blocks, strings.Count(string(doc), "```")/2)
	for _, b := range blocks {
		require.True(t, strings.Contains(source[b[1]], flat(b[2])), "no test has this:\n%s", b[2])
	}
}
