package autograd_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// fineAfterRelease are methods that want nothing of the graph's memory: they tell what is known, set what is never used, run what the program
// gives them, or release again.
var fineAfterRelease = map[string]bool{
	"Graph.Device": true, "Graph.Err": true, "Graph.Exec": true, "Graph.Generator": true, "Graph.GradEnabled": true,
	"Graph.Memo": true, "Graph.NoGrad": true, "Graph.Outside": true, "Graph.Replacement": true, "Graph.Release": true, "Graph.SavedTensors": true, "Graph.Scope": true,
	"Graph.Scopes": true, "Graph.ModulePath": true, "Graph.ModuleScope": true, "Graph.ModuleScopes": true, "Variable.Version": true,
	"Graph.SetCaster": true, "Graph.String": true,
	"Variable.Alive": true, "Variable.DType": true, "Variable.Dim": true, "Variable.Grad": true, "Variable.Graph": true, "Variable.IsLeaf": true, "Variable.MemoryFormat": true,
	"Variable.Keep": true, "Variable.Len": true, "Variable.NDim": true, "Variable.Parameter": true, "Variable.Release": true,
	"Variable.RegisterHook": true, "Variable.RegisterVariableHook": true, "Variable.RequiresGrad": true, "Variable.RetainGrad": true, "Variable.Shape": true,
	"Variable.String": true,
}

// releasedWorld is what methods of a released graph are called with.
type releasedWorld struct {
	t *testing.T
	g *autograd.Graph
	v *autograd.Variable
	x *tensor.Tensor
	p *autograd.Parameter
}

func newReleasedWorld(t *testing.T, r *rig) *releasedWorld {
	w := &releasedWorld{t: t, g: r.graph(), x: r.random(1, 2, 2), p: autograd.NewParameter("p", must(r.random(2, 2, 2).Clone()))}
	t.Cleanup(w.p.Release)
	w.v = w.g.Input(w.x, autograd.RequiresGrad())
	w.g.Param(w.p) // the graph knows it
	w.g.Release()
	return w
}

// argument is something legal of a type.
func (w *releasedWorld) argument(t reflect.Type) reflect.Value {
	switch {
	case t == reflect.TypeFor[*autograd.Variable]():
		return reflect.ValueOf(w.v)
	case t == reflect.TypeFor[*tensor.Tensor]():
		return reflect.ValueOf(w.x)
	case t == reflect.TypeFor[*autograd.Parameter]():
		return reflect.ValueOf(w.p)
	case t == reflect.TypeFor[[]*autograd.Variable]():
		return reflect.ValueOf([]*autograd.Variable{w.v, w.v})
	case t == reflect.TypeFor[error]():
		return reflect.ValueOf(errors.New("found by a module"))
	case t == reflect.TypeFor[any]():
		return reflect.ValueOf("key")
	case t.Kind() == reflect.String:
		return reflect.ValueOf("use")
	case t.Kind() == reflect.Int:
		return reflect.ValueOf(1).Convert(t)
	case t.Kind() == reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) (results []reflect.Value) {
			for i := range t.NumOut() {
				if result := t.Out(i); result.Kind() == reflect.Interface {
					results = append(results, reflect.Zero(result))
				} else {
					results = append(results, w.argument(result))
				}
			}
			return results
		})
	}
	return reflect.Zero(t)
}

// call calls a method, without what is variadic, and returns its error, or that of the graph.
func (w *releasedWorld) call(m reflect.Value) error {
	t := m.Type()
	n := t.NumIn()
	if t.IsVariadic() {
		n--
	}
	var in []reflect.Value
	for i := range n {
		in = append(in, w.argument(t.In(i)))
	}
	for _, result := range m.Call(in) {
		if err, ok := result.Interface().(error); ok && err != nil {
			return err
		}
	}
	return w.g.Err()
}

func TestReleasedGraph_SaysSoAtEveryMethod(t *testing.T) {
	r := onHost(t)
	methods := map[string]func(w *releasedWorld) reflect.Value{
		"Cat":       func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.Cat) },
		"Stack":     func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.Stack) },
		"Where":     func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.Where) },
		"AddMM":     func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.AddMM) },
		"BAddBMM":   func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.BAddBMM) },
		"Attention": func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.ScaledDotProductAttention) },
		"Grad":      func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.Grad) },
		"Values":    func(*releasedWorld) reflect.Value { return reflect.ValueOf(autograd.Values[float64]) },
		"Checkpoint": func(w *releasedWorld) reflect.Value {
			return reflect.ValueOf(func() *autograd.Variable {
				return autograd.Checkpoint(func(in []*autograd.Variable) *autograd.Variable { return in[0].Exp() }, w.v)
			})
		},
	}
	graph, variable := reflect.TypeFor[*autograd.Graph](), reflect.TypeFor[*autograd.Variable]()
	for i := range graph.NumMethod() {
		methods["Graph."+graph.Method(i).Name] = func(w *releasedWorld) reflect.Value { return reflect.ValueOf(w.g).Method(i) }
	}
	for i := range variable.NumMethod() {
		methods["Variable."+variable.Method(i).Name] = func(w *releasedWorld) reflect.Value { return reflect.ValueOf(w.v).Method(i) }
	}
	delete(methods, "Graph.Fail") // what it is given is the error
	for name := range fineAfterRelease {
		require.Contains(t, methods, name, "fineAfterRelease")
	}
	for name, method := range methods {
		t.Run(name, func(t *testing.T) {
			w := newReleasedWorld(t, r)
			err := w.call(method(w))
			if fineAfterRelease[name] {
				require.NoError(t, err)
				return
			}
			var released *autograd.ReleasedError
			require.ErrorAs(t, err, &released)
			require.Equal(t, autograd.GraphReleased, released.Reason)
			require.NotEmpty(t, released.Use)
			require.False(t, w.v.Alive())
		})
	}
}
