package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// adapter is a module with a parameter of its own, which it registers or forgets.
type adapter struct {
	nn.Base
	a *autograd.Parameter `nn:"-"`
}

func newAdapter(register bool) *adapter {
	m := &adapter{a: autograd.DeclareParameter("lora_a", nn.Ones, 3)}
	if register {
		m.RegisterParameterField("lora_a", &m.a)
	}
	return nn.New(m)
}

func (m *adapter) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable { return x.Mul(g.Param(m.a)) })
}

// holder has an adapter as its part "in", or does not register it.
type holder struct {
	nn.Base
	in *adapter `nn:"-"`
}

func (m *holder) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(*autograd.Graph) *autograd.Variable { return m.in.Forward(x) })
}

func TestParam_OfAnOwnModuleSaysWhereItIsAndWhatIsMissing(t *testing.T) {
	r := onHost(t)
	message := func(m nn.Layer, place bool) string {
		if place {
			r.place(m)
		}
		g := r.graph()
		defer g.Release()
		m.Forward(g.Input(r.tensor([]float32{1, 2, 3}, 3)))
		var missing *autograd.ParameterError
		require.ErrorAs(t, g.Err(), &missing)
		return missing.Error()
	}
	of := func(in *adapter, register bool) nn.Layer {
		m := &holder{in: in}
		if register {
			nn.RegisterField(&m.Base, "in", &m.in)
		}
		return nn.New(m)
	}
	const register = "put it into an exported field there or register it (RegisterParameterField, RegisterBufferField)"
	require.Equal(t, `parameter "in.lora_a" [3] has no tensor: the module in does not list it: `+register, message(of(newAdapter(false), true), true))
	require.Equal(t, `parameter "lora_a" [3] has no tensor: the module does not list it: `+register, message(newAdapter(false), true))
	require.Equal(t, `parameter "in.lora_a" [3] has no tensor: To has not reached the module: call To on the model and, if that was done, put `+
		`the module into an exported field there or register it (Register, RegisterField)`, message(of(newAdapter(true), true), false))
	require.Equal(t, `parameter "lora_a" [3] has no tensor: To has not reached the module: call To on the model and, if that was done, put `+
		`the module into an exported field there or register it (Register, RegisterField)`, message(of(newAdapter(true), false), true))
	tied := newAdapter(false)
	outer := nn.New(&holder{in: tied})
	nn.RegisterField(&outer.Base, "in", &outer.in)
	outer.RegisterParameterField("scale", &tied.a)
	require.NotContains(t, message(outer, false), "does not list", "it is another's")
	require.Contains(t, message(outer, false), `parameter "scale" [3] has no tensor`)

	released := newAdapter(true)
	r.place(released)
	released.Release()
	require.Equal(t, `parameter "lora_a" [3] has no tensor: it was not materialized yet (To on the model), or it was released`, message(released, false))

	r.place(released)
	g := r.graph()
	defer g.Release()
	g.Param(newAdapter(false).a)
	require.ErrorContains(t, g.Err(), `parameter "lora_a" [3] has no tensor: it was not materialized yet`, "outside of modules")
}
