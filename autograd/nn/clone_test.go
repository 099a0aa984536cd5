package nn_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// kitchen has parts in all the ways in which a module may hold them.
type kitchen struct {
	nn.Base
	FC      *nn.LinearLayer
	Value   nn.LinearLayer
	Any     nn.Layer
	Blocks  []nn.Layer
	Heads   map[string]*nn.LinearLayer
	Pair    [2]*nn.LinearLayer
	Scales  []*autograd.Parameter
	Teacher *nn.LinearLayer `nn:"-"`
	Loose   any

	alias   *nn.LinearLayer // FC again
	details *details        // a struct with registered fields
	byName  map[string]nn.Layer
	Sizes   []int `nn:"-"`
	mu      sync.Mutex
}

type details struct {
	gain *autograd.Parameter
	body nn.Layer
	name string
}

func newKitchen(teacher *nn.LinearLayer) *kitchen {
	k := &kitchen{
		FC: nn.Linear(4, 4), Value: nn.LinearLayer{Weight: autograd.DeclareParameter("w", nn.Ones, 4, 4)}, Any: nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
		Blocks: []nn.Layer{nn.BatchNorm1d(4), nn.Checkpointed(nn.Linear(4, 4)), nn.Dropout(0.5)},
		Heads:  map[string]*nn.LinearLayer{"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)}, Pair: [2]*nn.LinearLayer{nn.Linear(4, 4)},
		Scales: []*autograd.Parameter{autograd.DeclareParameter("scale", nn.Ones, 4)}, Teacher: teacher, Loose: nn.Linear(4, 1), Sizes: []int{1, 2},
	}
	k.alias = k.FC
	k.details = &details{gain: autograd.DeclareParameter("gain", nn.Ones, 4), body: nn.Linear(4, 4, nn.NoBias()), name: "x"}
	k.RegisterParameterField("gain", &k.details.gain)
	nn.RegisterField(&k.Base, "body", &k.details.body)
	k.byName = map[string]nn.Layer{"fc": k.FC, "any": k.Any}
	k.Heads["b"].Weight.SetRequiresGrad(false)
	k.Pair[1] = k.Pair[0]
	return nn.New(k)
}

func (k *kitchen) Forward(x *autograd.Variable) *autograd.Variable {
	return k.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		h := k.alias.Forward(x).Add(k.byName["fc"].Forward(x)).Add(k.Any.Forward(x))
		for _, b := range k.Blocks {
			h = b.Forward(h)
		}
		return k.details.body.Forward(k.Value.Forward(h.Mul(g.Param(k.details.gain)))).Add(k.Pair[1].Forward(h)).Mul(g.Param(k.Scales[0]))
	})
}

func TestClone_ComputesTheSameInMemoryOfItsOwn(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float32{1, -2, 3, 0.5, 2, 1, -1, 4}, 2, 4)
	teacher := nn.Linear(4, 4)
	r.place(teacher)
	k := newKitchen(teacher)
	r.place(k, nn.Seed(3))
	nn.Eval(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	before, want := r.allocated(), r.forward(k, x)
	c, err := nn.Clone(k)
	require.NoError(t, err)
	require.Equal(t, names(nn.AllNamedState(k)), names(nn.AllNamedState(c)))
	require.Equal(t, before+bytesOf(k), r.allocated(), "each parameter once more, and nothing else")
	require.Equal(t, want, r.forward(c, x))
	require.False(t, c.Training())
	for i, n := range nn.NamedState(c) {
		of := nn.NamedState(k)[i].Parameter
		require.NotSame(t, of, n.Parameter)
		require.Equal(t, of.RequiresGrad(), n.Parameter.RequiresGrad(), n.Name)
		require.Equal(t, of.Tensor().DType(), n.Parameter.Tensor().DType())
	}
	require.Same(t, c.FC, c.alias)
	require.Same(t, c.FC, c.byName["fc"])
	require.Same(t, c.Pair[0], c.Pair[1])
	require.Same(t, k.Teacher, c.Teacher, "another model's")
	require.NotSame(t, k.details, c.details)
	require.True(t, c.mu.TryLock(), "a lock of its own")

	for _, n := range nn.NamedParameters(c) {
		require.NoError(t, n.Parameter.Tensor().FillInPlace(0.25))
	}
	require.Equal(t, want, r.forward(k, x), "the model keeps its values")
	c.Release()
	require.Equal(t, before, r.allocated())
	require.Equal(t, want, r.forward(k, x))
}

// bytesOf is the memory of m's parameters and buffers.
func bytesOf(m nn.Module) (sum int64) {
	for _, n := range nn.NamedState(m) {
		sum += (int64(n.Parameter.Len()*n.Parameter.Tensor().DType().Size()) + 511) / 512 * 512
	}
	return sum
}

func TestClone_OfEveryLayerThatHasParameters(t *testing.T) {
	r := onHost(t)
	for i, m := range []nn.Module{
		nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2)), nn.LSTM(3, 4, nn.Layers(2), nn.Bidirectional()),
		nn.GRUCell(3, 4), nn.TransformerBlock(4, 2), nn.MultiheadAttention(4, 2, nn.KDim(3)), nn.Embedding(5, 3), nn.LayerNorm([]int{3}), newCoder(),
	} {
		for _, placed := range []bool{false, true} {
			t.Run(fmt.Sprint(i, placed), func(t *testing.T) {
				if placed {
					r.place(m, nn.Seed(1))
				}
				c, err := nn.Clone(m)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(m), fmt.Sprint(c))
				require.Equal(t, names(nn.AllNamedState(m)), names(nn.AllNamedState(c)))
				r.place(c, nn.Seed(1))
				for j, n := range nn.NamedState(c) {
					of := nn.NamedState(m)[j].Parameter
					require.NotSame(t, of, n.Parameter)
					if placed {
						require.Equal(t, valuesOf(t, of), valuesOf(t, n.Parameter))
					}
				}
				var file bytes.Buffer
				require.NoError(t, nn.Save(&file, c))
			})
		}
	}
}

func TestClone_KeepsTiesAndNoGradients(t *testing.T) {
	r := onHost(t)
	n := newCoder()
	n.dec.Weight = n.enc.Weight
	r.place(n, nn.Seed(1))
	g := r.graph()
	require.NoError(t, n.Forward(g.Input(r.tensor([]float32{1, 2, 3, 4}, 1, 4))).Sum(nil, false).Backward())
	g.Release()
	c, err := nn.Clone(n)
	require.NoError(t, err)
	defer c.Release()
	require.Same(t, c.enc.Weight, c.dec.Weight)
	require.NotSame(t, n.enc.Weight, c.enc.Weight)
	require.Nil(t, c.enc.Weight.Grad())
	require.NotNil(t, n.enc.Weight.Grad())
	c.act = nn.Tanh()
	require.Same(t, c.act, c.Parts()[1].Module, "registered fields are the copy's")

	opt := optim.SGD(c.Parameters(), optim.LR(0.1))
	was := valuesOf(t, n.enc.Weight)
	g = r.graph()
	defer g.Release()
	require.NoError(t, c.Forward(g.Input(r.tensor([]float32{1, 2, 3, 4}, 1, 4))).Sum(nil, false).Backward())
	require.NoError(t, opt.Step())
	require.Equal(t, was, valuesOf(t, n.enc.Weight))
	require.NotEqual(t, was, valuesOf(t, c.enc.Weight))
}

func TestClone_ThatFailsKeepsNothing(t *testing.T) {
	r := onSim(t)
	m := nn.Sequential(nn.Linear(1<<12, 1<<12), nn.Linear(1<<14, 1<<14-1<<11), nn.Linear(1<<6, 1<<6)) // 64 MiB, 896 MiB
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc)))
	defer m.Release()
	before := r.allocated()
	_, err := nn.Clone(m)
	require.ErrorContains(t, err, "nn: Clone: parameter 0.weight")
	require.Equal(t, before, r.allocated())
}

// closing keeps a part in a function.
type closing struct {
	nn.Base
	FC  *nn.LinearLayer
	run func(x *autograd.Variable) *autograd.Variable
	err error
}

func newClosing() *closing {
	c := &closing{FC: nn.Linear(2, 2)}
	c.run = c.FC.Forward
	return nn.New(c)
}

func (c *closing) Cloned(nn.Module) error {
	c.run = c.FC.Forward
	return c.err
}

// global registers a field that lies in no module.
type global struct{ nn.Base }

func TestClone_AsksCloners(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float32{1, 2}, 1, 2)
	m := newClosing()
	r.place(m, nn.Seed(1))
	s := struct {
		nn.Base
		M *closing
	}{M: m}
	c, err := nn.Clone(nn.New(&s))
	require.NoError(t, err)
	require.NoError(t, c.M.FC.Weight.Tensor().FillInPlace(0))
	require.NoError(t, c.M.FC.Bias.Tensor().FillInPlace(0))
	g := r.graph()
	defer g.Release()
	v, err := c.M.run(g.Input(x)).Float64s()
	require.NoError(t, err)
	require.Equal(t, []float64{0, 0}, v, "the function is the copy's")
	c.Release()
	before := r.allocated()
	m.err = errors.New("no copies")
	_, err = nn.Clone(&s)
	require.ErrorIs(t, err, m.err)
	require.EqualError(t, err, "nn: Clone: Cloned of *nn_test.closing: no copies")
	require.Equal(t, before, r.allocated())
}

func TestClone_RefusesWhatItCannotCopy(t *testing.T) {
	var bad *nn.ArgumentError
	_, err := nn.Clone[*nn.LinearLayer](nil)
	require.EqualError(t, err, "nn: Clone: the module is nil")
	require.ErrorAs(t, err, &bad)
	_, err = nn.Clone[nn.Module](nil)
	require.ErrorAs(t, err, &bad)
	_, err = nn.Clone(&kitchen{Blocks: []nn.Layer{nn.Linear(1, 1)}, alias: nn.Linear(1, 1)})
	require.ErrorContains(t, err, "field alias")
	outside, m := autograd.DeclareParameter("w", nn.Ones, 1), new(global)
	m.RegisterParameterField("w", &outside)
	_, err = nn.Clone(m)
	require.ErrorContains(t, err, "w is held where a copy of the module does not have it")
}

func TestParameterClone_HasMemoryOfItsOwn(t *testing.T) {
	r := onHost(t)
	p := autograd.DeclareParameter("p", nn.Ones, 2)
	require.NoError(t, p.SetTensor(mustZeros(r, 2)))
	q, err := p.Clone()
	require.NoError(t, err)
	require.EqualValues(t, 1024, r.allocated())
	require.Equal(t, []float64{0, 0}, valuesOf(t, q))
	q.Release()
	p.Release()
	require.NoError(t, p.Await(r.exec, tensor.Float16))
	q, err = p.Clone()
	require.NoError(t, err)
	_, dt, ok := q.Awaited()
	require.True(t, ok)
	require.Equal(t, tensor.Float16, dt)
	var none *autograd.ParameterError
	_, err = (*autograd.Parameter)(nil).Clone()
	require.ErrorAs(t, err, &none)
}

func mustZeros(r *rig, shape ...int) *tensor.Tensor {
	z, err := tensor.Zeros(r.exec, tensor.Float32, shape...)
	require.NoError(r.t, err)
	return z
}
