package autograd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/tensor"
)

// What graphs, variables and parameters print says where a program is. Values are asked for.
func ExampleVariable_String() {
	dev := host.Default()
	g := autograd.NewGraph(dev)
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.FromSlice(e, []float32{1, 2, 3, 4}, 2, 2) })
	w := autograd.DeclareParameter("weight", func(e tensor.Exec, _ *tensor.Generator, dt tensor.DType, shape ...int) (*tensor.Tensor, error) {
		return tensor.Ones(e, dt, shape...)
	}, 3, 2)
	defer w.Release()
	fmt.Println(w)
	if err := w.Materialize(g.Exec(), nil, tensor.Float32); err != nil {
		fmt.Println(err)
	}
	y := x.Linear(g.Param(w), nil)
	fmt.Println(w)
	fmt.Println(x)
	fmt.Println(y)
	fmt.Println(g)
	fmt.Println(y.Float64s())
	// Output:
	// parameter "weight" [3, 2], no tensor
	// parameter "weight" float32[3, 2], host
	// variable float32[2, 2]
	// variable float32[2, 3] of "linear", requires grad
	// graph on host: 3 tensors of 64B, 1 operation recorded
	// [3 3 3 7 7 7] <nil>
}

func TestString_OfAVariable(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	p := autograd.NewParameter("w", must(r.random(1, 2).Clone()))
	defer p.Release()
	x, gone := g.Input(r.random(2, 3)), g.Input(r.random(2, 3))
	gone.Release()
	changed := g.Param(p).Sigmoid()
	changed.MulScalarInPlace(2)
	ended := r.graph()
	of := ended.Input(r.random(2, 3))
	ended.Release()
	failed := r.graph()
	defer failed.Release()
	for want, v := range map[string]*autograd.Variable{
		"variable (nil)":                                      nil,
		"variable (of no graph)":                              new(autograd.Variable),
		"variable (after an error of its graph)":              failed.Input(nil),
		"variable float64[3], input":                          x,
		"variable float64[3], input, released":                gone,
		"variable float64[3], input, released ":               of,
		`variable float64[2] of parameter "w", requires grad`: g.Param(p),
		`variable float64[2] of "mul_scalar_", requires grad`: changed,
		`variable float64[3], input, requires grad`:           g.Input(r.random(2, 3), autograd.RequiresGrad()),
		"variable float64[3]":                                 x.MulScalar(2),
	} {
		require.Equal(t, strings.TrimSpace(want), v.String())
		require.Equal(t, "{"+v.String()+"}", fmt.Sprintf("%v", struct{ V *autograd.Variable }{v}))
	}
}

func TestString_OfAParameter(t *testing.T) {
	r := onHost(t)
	p := autograd.NewParameter("w", must(r.random(1, 2).Clone()))
	require.Equal(t, `parameter "w" float64[2], `+r.dev.ID().String(), p.String())
	require.NoError(t, p.SetGrad(must(r.random(1, 2).Clone())))
	p.SetRequiresGrad(false)
	require.Equal(t, `parameter "w" float64[2], `+r.dev.ID().String()+", requires no grad, gradient", p.String())
	p.Release()
	require.Equal(t, `parameter "w" [2], no tensor`, p.String())
	require.Equal(t, "parameter (nil)", (*autograd.Parameter)(nil).String())
	require.Equal(t, `parameter "" [], no tensor`, new(autograd.Parameter).String())
	require.Equal(t, `parameter "" [], no tensor`, autograd.NewParameter("", nil).String())
	refused := autograd.RefusedParameter("a\nb", errors.New("of two\nlines"))
	require.Equal(t, `parameter "a\nb", refused: of two`, refused.String())
	require.Less(t, len(autograd.DeclareParameter(strings.Repeat("n", 1<<20), nil).String()), 1000)
}

func TestString_OfAGraph(t *testing.T) {
	r := onSim(t)
	g := r.graph()
	id := r.dev.ID().String()
	require.Equal(t, "graph on "+id+": 0 tensors of 0B, 0 operations recorded", g.String())
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float16, 8, 8) })
	before, calls := r.alloc.Stats(), r.dev.(*sim.Device).Calls()
	require.Equal(t, "graph on "+id+": 1 tensor of 128B, 0 operations recorded", g.String())
	require.Equal(t, before, r.alloc.Stats())
	require.Equal(t, calls, r.dev.(*sim.Device).Calls())
	x.Reshape(5)
	require.Contains(t, g.String(), "graph on "+id+", failed: ")
	g.Release()
	require.Contains(t, g.String(), "failed: ", "that comes first")
	fine := r.graph()
	fine.Release()
	require.Equal(t, "graph on "+id+", released", fine.String())
	require.Equal(t, "graph (nil)", (*autograd.Graph)(nil).String())
	require.Equal(t, "graph (nil)", new(autograd.Graph).String())
	require.Contains(t, autograd.NewGraph(nil).String(), "graph, failed: ")
	require.Contains(t, autograd.NewGraph((*host.Device)(nil)).String(), "graph, failed: ")
}
