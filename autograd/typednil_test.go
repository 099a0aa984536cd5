package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// fixed is a caster and has hooks; its methods read a field.
type fixed struct{ factor int }

func (f *fixed) Cast(_ string, in []*autograd.Variable) ([]*autograd.Variable, error) {
	return in[:len(in)*f.factor], nil
}

func (f *fixed) Pack(*tensor.Tensor, bool) (autograd.Packed, error) {
	f.factor++
	return nil, nil
}

func TestGraph_RefusesNilPointersInOptions(t *testing.T) {
	r := onHost(t)
	for name, o := range map[string]autograd.Option{
		"WithStream":           autograd.WithStream((*cuda.Stream)(nil)),
		"WithAllocator":        autograd.WithAllocator((*memory.Caching)(nil)),
		"WithCaster":           autograd.WithCaster((*fixed)(nil)),
		"WithSavedTensorHooks": autograd.WithSavedTensorHooks((*fixed)(nil)),
	} {
		g := autograd.NewGraph(r.dev, o)
		var failed *autograd.OpError
		require.ErrorAs(t, g.Err(), &failed, name)
		require.Equal(t, "NewGraph", failed.Op)
		require.ErrorContains(t, failed, "is a nil *")
		g.Release()
	}
}

func TestGraph_RefusesNilPointersLater(t *testing.T) {
	r := onHost(t)
	for name, use := range map[string]func(g *autograd.Graph){
		"SetCaster": func(g *autograd.Graph) { g.SetCaster((*fixed)(nil)) },
		"SavedTensors": func(g *autograd.Graph) {
			g.SavedTensors((*fixed)(nil), func() *autograd.Variable { return g.Input(r.random(1, 2)).Exp() })
		},
	} {
		g := r.graph()
		use(g)
		g.Input(r.random(1, 2)).Exp()
		require.ErrorContains(t, g.Err(), "is a nil *autograd_test.fixed", name)
		g.Release()
	}
}
