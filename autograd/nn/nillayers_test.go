package nn_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
)

// nilLayers are nil pointers to all layers.
var nilLayers = []any{
	(*nn.Base)(nil), (*nn.LinearLayer)(nil), (*nn.FuncModule)(nil), (*nn.DropoutLayer)(nil), (*nn.MultiheadAttentionLayer)(nil), (*nn.BatchNormLayer)(nil),
	(*nn.ConvLayer)(nil), (*nn.ConvTransposeLayer)(nil), (*nn.EmbeddingLayer)(nil), (*nn.EmbeddingBagLayer)(nil), (*nn.PReLULayer)(nil), (*nn.SequentialModule)(nil),
	(*nn.LayerNormLayer)(nil), (*nn.RMSNormLayer)(nil), (*nn.GroupNormLayer)(nil), (*nn.InstanceNormLayer)(nil), (*nn.RNNLayer)(nil), (*nn.RNNCellLayer)(nil),
	(*nn.TransformerBlockLayer)(nil), (*nn.BilinearLayer)(nil), (*nn.PairModule)(nil), (*nn.RReLULayer)(nil), (*nn.MaxPoolIndicesModule)(nil),
	(*nn.MaxUnpoolModule)(nil), (*nn.AdaptiveLogSoftmaxLayer)(nil), (*nn.LoRALayer)(nil), (*nn.CheckpointModule)(nil),
}

// What a layer has of Base is called through a field of it, which Go ends before any code of the method runs: those of its own it must
// answer.
func TestNilLayers_AnswerWithoutAPanic(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2, 3, 4}, 2, 2))
	base := reflect.TypeFor[*nn.Base]()
	for _, layer := range nilLayers {
		v := reflect.ValueOf(layer)
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			_, promoted := base.MethodByName(name)
			if promoted && name != "String" && v.Type() != base && v.Type() != reflect.TypeFor[*nn.CheckpointModule]() {
				continue
			}
			m := v.Method(i)
			var args []reflect.Value
			for k := range m.Type().NumIn() {
				if in := m.Type().In(k); !m.Type().IsVariadic() || k < m.Type().NumIn()-1 {
					args = append(args, argument(in, x, true))
				}
			}
			require.NotPanics(t, func() { m.Call(args) }, "%v.%s", v.Type(), name)
		}
	}
	require.ErrorContains(t, g.Err(), "is a nil pointer")
}

// All that takes a module takes a nil one, and says so.
func TestNilLayers_AreErrorsOfTheFunctionsThatTakeModules(t *testing.T) {
	r := onHost(t)
	var bad *nn.ArgumentError
	for _, layer := range nilLayers {
		m, ok := layer.(nn.Layer)
		if !ok {
			continue
		}
		require.ErrorAs(t, nn.Check(m), &bad)
		require.ErrorAs(t, nn.Save(new(bytes.Buffer), m), &bad)
		require.ErrorAs(t, nn.Load(new(bytes.Buffer), m), &bad)
		require.ErrorAs(t, nn.Sequential(m).To(r.dev), &bad)
		require.Error(t, nn.NamedParameters(m)[0].Parameter.Err())
		nn.Train(m)
		nn.Eval(m)
		g := r.graph()
		m.Forward(g.Input(r.tensor([]float32{1, 2}, 1, 2)))
		require.ErrorAs(t, g.Err(), &bad, fmt.Sprintf("%T", m))
		g.Release()
	}
}

// pointed embeds a pointer, which somebody forgot to set.
type pointed struct {
	*nn.Base
	fc *nn.LinearLayer
}

func (p *pointed) Forward(x *autograd.Variable) *autograd.Variable {
	return p.Scope(x, func(*autograd.Graph) *autograd.Variable { return p.fc.Forward(x) })
}

func TestNilBase_IsAnErrorOfTheModule(t *testing.T) {
	r := onHost(t)
	p := &pointed{fc: nn.Linear(2, 1)}
	nn.RegisterField(p.Base, "fc", &p.fc)
	nn.RegisterList(p.Base, "fcs", &[]nn.Layer{})
	p.Register("other", nn.ReLU())
	p.RegisterParameterField("p", nil)
	p.RegisterBuffer(nil)
	const want = "nn: module: its Base is a nil pointer: embed nn.Base"
	require.EqualError(t, p.To(r.dev), want)
	require.EqualError(t, nn.Check(p), want)
	require.ErrorContains(t, nn.Check(nn.Sequential(p)), want)
	require.EqualError(t, p.Parameters()[0].Err(), want)
	require.True(t, p.Training())
	require.Empty(t, p.Parts())
	p.Release()
	g := r.graph()
	defer g.Release()
	p.Forward(g.Input(r.tensor([]float32{1, 2}, 1, 2)))
	require.ErrorContains(t, g.Err(), want)
}
