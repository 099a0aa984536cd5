package checkpoint_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
)

// misnamed is a module that registers two parts under one name.
type misnamed struct {
	nn.Base
	a *nn.LinearLayer
	b *nn.LinearLayer `nn:"-"`
}

func (m *misnamed) Forward(x *autograd.Variable) *autograd.Variable { return x }

// What is wrong with the registration of a model is said as nn.Save and nn.Load say it.
func TestModule_SaysWhatIsWrongWithTheRegistration(t *testing.T) {
	m := &misnamed{a: nn.Linear(1, 1), b: nn.Linear(1, 1)}
	nn.RegisterField(&m.Base, "a", &m.a)
	require.NoError(t, m.To(host.Default()))
	defer m.a.Release()
	var file bytes.Buffer
	c := checkpoint.New().Add("model", checkpoint.Module(m))
	require.NoError(t, c.Write(t.Context(), &file))

	nn.RegisterField(&m.Base, "a", &m.b)
	var name *nn.NameError
	require.ErrorAs(t, c.Write(t.Context(), new(bytes.Buffer)), &name)
	require.Equal(t, "a", name.Name)
	require.ErrorAs(t, c.Read(t.Context(), &file), &name)
	require.ErrorAs(t, nn.Check(m), &name)

	cell := nn.Sequential(nn.LSTMCell(1, 1, nn.Layers(2)))
	var bad *nn.ArgumentError
	require.ErrorAs(t, checkpoint.New().Add("model", checkpoint.Module(cell)).Write(t.Context(), &file), &bad)
	require.ErrorContains(t, bad, "it has no option Layers")
	require.NoError(t, nn.Check(nn.Linear(1, 1)))
}
