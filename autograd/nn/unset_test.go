package nn_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// tied is a model with a buffer and a parameter under two names.
func tied() *nn.SequentialModule {
	a, b := nn.Linear(4, 4), nn.Linear(4, 4)
	b.Weight = a.Weight
	return nn.Sequential(a, nn.BatchNorm1d(4), b)
}

func TestUnset_TakesNoMemoryUntilLoadGivesTheValues(t *testing.T) {
	r := onHost(t)
	trained := tied()
	r.place(trained, nn.Seed(3))
	file := contents(t, trained)
	for name, reader := range readers {
		before := r.allocated()
		m := tied()
		r.place(m, nn.Unset(), nn.DType(tensor.Float64))
		buffers := int64(0)
		for _, b := range nn.NamedBuffers(m) {
			buffers += int64(b.Parameter.Tensor().StorageBytes())
		}
		require.Equal(t, before+buffers, r.allocated(), name)
		for _, p := range m.Parameters() {
			require.Nil(t, p.Tensor())
		}
		require.NoError(t, nn.Load(reader(file), m), name)
		for i, p := range m.Parameters() {
			require.Equal(t, tensor.Float64, p.Tensor().DType(), "the type that To was told")
			want, err := trained.Parameters()[i].Tensor().Float64s()
			require.NoError(t, err)
			got, err := p.Tensor().Float64s()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		m.Release()
	}
}

func TestUnset_OfWhatIsUsedBeforeItIsLoaded_NamesIt(t *testing.T) {
	r := onHost(t)
	m := tied()
	r.place(m, nn.Unset())
	g := r.graph()
	defer g.Release()
	m.Forward(g.Input(r.tensor(make([]float32, 8), 2, 4)))
	require.ErrorIs(t, g.Err(), autograd.ErrNotMaterialized)
	require.ErrorContains(t, g.Err(), `parameter "0.weight" [4, 4]`)
	require.ErrorContains(t, g.Err(), "To was called with Unset, and nothing was loaded into it since")
	require.ErrorIs(t, nn.Save(new(bytes.Buffer), m), autograd.ErrNotMaterialized)
}

// An optimizer that meets what was not loaded says so, with the path that the model has for it, as Forward does.
func TestUnset_OfWhatAnOptimizerSteps_NamesIt(t *testing.T) {
	r := onHost(t)
	part := nn.Sequential(nn.Linear(2, 2))
	r.place(part, nn.Seed(1))
	whole := nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
	r.place(whole, nn.Unset())
	require.NoError(t, nn.Load(bytes.NewReader(contents(t, part)), whole, nn.Partial(nil)))
	const why = `parameter "1.weight" [3, 2] has no tensor: To was called with Unset, and nothing was loaded into it since`
	opt := optim.SGD(whole.Parameters())
	defer opt.Release()
	require.EqualError(t, opt.Step(), "optim: SGD: "+why)
	second := optim.LBFGS(whole.Parameters())
	defer second.Release()
	_, err := second.StepClosure(func() (float64, error) { return 0, nil })
	require.EqualError(t, err, "optim: LBFGS: "+why)
	require.ErrorContains(t, nn.Save(new(bytes.Buffer), whole), why)
	grad := r.tensor(make([]float32, 6), 3, 2)
	require.ErrorContains(t, whole.Parameters()[2].SetGrad(grad), why)
	whole.Release()
}

func TestUnset_WithToAfterwards_InitializesWhatNoFileHad(t *testing.T) {
	r := onHost(t)
	part := nn.Sequential(nn.Linear(2, 2))
	r.place(part, nn.Seed(1))
	whole := nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
	r.place(whole, nn.Unset())
	var left nn.Unmatched
	require.NoError(t, nn.Load(bytes.NewReader(contents(t, part)), whole, nn.Partial(&left)))
	require.Equal(t, []string{"1.weight", "1.bias"}, left.Missing)
	require.Nil(t, whole.Parameters()[2].Tensor())
	r.place(whole, nn.Seed(2))
	require.NotNil(t, whole.Parameters()[2].Tensor())
	want, err := part.Parameters()[0].Tensor().Float64s()
	require.NoError(t, err)
	got, err := whole.Parameters()[0].Tensor().Float64s()
	require.NoError(t, err)
	require.Equal(t, want, got, "what was loaded stays")
}

func TestLoad_IntoAnUnsetModelThatFails_LeavesItUnset(t *testing.T) {
	r := onHost(t)
	l := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
	r.place(l)
	file := contents(t, l)
	held := r.allocated()
	for name, reader := range readers {
		m := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
		limited := &after{Allocator: r.alloc, left: 2}
		require.NoError(t, m.To(r.dev, nn.WithAllocator(limited), nn.Unset()), name)
		err := nn.Load(reader(file), m)
		require.ErrorIs(t, err, errBroken, name)
		var partial *nn.PartialError
		require.False(t, errors.As(err, &partial), "nothing is loaded: %v", err)
		require.Equal(t, held, r.allocated(), name)
		limited.left = 100
		require.NoError(t, nn.Load(reader(file), m), "it is to be loaded still")
		m.Release()
	}
}

func TestTo_WithUnsetThatFails_LeavesTheModelAsItWas(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc), nn.Unset(), nn.DType(tensor.BFloat16)))
	m.Release()
	require.NoError(t, m.To(r.dev, nn.WithAllocator(&after{Allocator: r.alloc, left: 100}), nn.Unset()))
	broken := &after{Allocator: r.alloc}
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc)), "all have values now")
	m.Release()
	require.ErrorIs(t, m.To(r.dev, nn.WithAllocator(broken), nn.Unset()), errBroken, "a buffer has no memory")
	_, _, awaited := m.Parameters()[0].Awaited()
	require.False(t, awaited)
	var dtype *tensor.DTypeError
	require.ErrorAs(t, m.To(r.dev, nn.Unset(), nn.DType(tensor.Int64)), &dtype)
}
