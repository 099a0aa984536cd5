package nn_test

import (
	"fmt"
	"io"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
)

// zeroValues are pointers to the zero values of the exported structs whose zero values programs can make.
var zeroValues = []any{
	new(autograd.Variable), new(autograd.Graph), new(autograd.Parameter), new(autograd.Function[int]), new(autograd.Context),
	new(autograd.HookHandle), new(autograd.Move), new(autograd.OpError), new(autograd.ReleasedError), new(autograd.SecondBackwardError),
	new(autograd.ModifiedError), new(autograd.GradError), new(autograd.ParameterError), new(autograd.InPlaceError),
	new(optim.Grouped), new(optim.Schedule), new(optim.PlateauSchedule), new(optim.PreparedState), new(optim.ConfigError),
	new(optim.StateError), new(optim.NonFiniteError),
	new(nn.FuncModule), new(nn.DropoutLayer), new(nn.MultiheadAttentionLayer), new(nn.BatchNormLayer), new(nn.CheckpointModule),
	new(nn.ConvLayer), new(nn.ConvTransposeLayer), new(nn.EmbeddingLayer), new(nn.EmbeddingBagLayer), new(nn.PReLULayer), new(nn.LinearLayer), new(nn.Base),
	new(nn.SequentialModule), new(nn.LayerNormLayer), new(nn.RMSNormLayer), new(nn.GroupNormLayer), new(nn.InstanceNormLayer),
	new(nn.RNNLayer), new(nn.RNNCellLayer), new(nn.TransformerBlockLayer),
	new(nn.BilinearLayer), new(nn.PairModule), new(nn.RReLULayer), new(nn.MaxPoolIndicesModule), new(nn.MaxUnpoolModule), new(nn.AdaptiveLogSoftmaxLayer),
	new(nn.ArgumentError), new(nn.NameError), new(nn.FormatError), new(nn.MismatchError), new(nn.PartialError),
}

// nilReceivers are the types whose methods take a nil pointer: those that programs get from functions, and pass on.
var nilReceivers = []any{
	(*autograd.Variable)(nil), (*autograd.Graph)(nil), (*autograd.Parameter)(nil), (*autograd.Function[int])(nil), (*autograd.HookHandle)(nil),
	(*autograd.Move)(nil), (*autograd.Context)(nil), (*optim.Grouped)(nil), (*optim.Schedule)(nil), (*optim.PlateauSchedule)(nil),
	(*optim.PreparedState)(nil),
}

// What has no graph, or no optimizer, says so where a program looks for errors.
func TestZeroValuesAndNilPointers_AreErrors(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2}, 2))
	var f *autograd.Function[int]
	require.False(t, f.Apply(1, x).Alive())
	require.Error(t, g.Err())
	require.ErrorIs(t, new(autograd.Variable).Backward(), autograd.ErrNilVariable)
	require.Nil(t, new(autograd.Variable).Chunk(2, 0)[1])
	require.ErrorIs(t, new(autograd.Graph).Err(), autograd.ErrNilGraph)
	other := r.graph()
	defer other.Release()
	new(autograd.Variable).Add(other.Input(r.tensor([]float32{1, 2}, 2)))
	require.ErrorIs(t, other.Err(), autograd.ErrNilVariable)

	for _, o := range []*optim.Grouped{nil, new(optim.Grouped)} {
		require.ErrorIs(t, o.AddGroup(nil).Err(), optim.ErrInvalid)
		require.ErrorIs(t, o.Step(), optim.ErrInvalid)
		_, err := o.StateDict()
		require.ErrorIs(t, err, optim.ErrInvalid)
		require.ErrorIs(t, o.LoadStateDict(optim.StateDict{}), optim.ErrInvalid)
		require.ErrorIs(t, optim.StepLR(o, 1, 0.1).Step(), optim.ErrInvalid)
	}
	for _, s := range []*optim.Schedule{nil, new(optim.Schedule)} {
		require.ErrorIs(t, s.Step(), optim.ErrInvalid)
		require.ErrorIs(t, optim.SequentialLR(optim.SGD(nil), []*optim.Schedule{s}, nil).Err(), optim.ErrInvalid)
	}
	require.ErrorIs(t, new(optim.PlateauSchedule).Step(1), optim.ErrInvalid)
}

func TestZeroValuesAndNilPointers_AnswerWithoutAPanic(t *testing.T) {
	r := onHost(t)
	g := r.graph()
	defer g.Release()
	x := g.Input(r.tensor([]float32{1, 2, 3, 4}, 2, 2))
	for _, v := range nilReceivers {
		for _, one := range []bool{false, true} {
			callAll(t, func() reflect.Value { return reflect.ValueOf(v) }, x, one)
		}
	}
	for _, v := range zeroValues {
		for _, one := range []bool{false, true} {
			callAll(t, func() reflect.Value { return reflect.New(reflect.TypeOf(v).Elem()) }, x, one)
		}
	}
}

// callAll calls each method of a new value, with arguments that are 0 or 1.
func callAll(t *testing.T, fresh func() reflect.Value, x *autograd.Variable, one bool) {
	for i := range fresh().NumMethod() {
		v := fresh()
		m, name := v.Method(i), fmt.Sprintf("%v(nil: %v).%s", v.Type(), v.IsNil(), v.Type().Method(i).Name)
		var args []reflect.Value
		for k := range m.Type().NumIn() {
			if in := m.Type().In(k); !m.Type().IsVariadic() || k < m.Type().NumIn()-1 {
				args = append(args, argument(in, x, one))
			} else if one {
				args = append(args, argument(in.Elem(), x, one))
			}
		}
		require.NotPanics(t, func() {
			for _, out := range m.Call(args) {
				if f, ok := out.Interface().(func()); ok {
					f()
				}
			}
		}, "%s", name)
	}
}

// argument is a value of a type: its zero, or one, a living variable, and a function that returns zeros.
func argument(typ reflect.Type, x *autograd.Variable, one bool) reflect.Value {
	v := reflect.New(typ).Elem()
	switch {
	case typ == reflect.TypeFor[io.Writer]():
		return reflect.ValueOf(io.Discard)
	case typ == reflect.TypeFor[fmt.State](), !one:
	case typ == reflect.TypeOf(x):
		v.Set(reflect.ValueOf(x))
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	case typ.Kind() == reflect.Func:
		return reflect.MakeFunc(typ, func([]reflect.Value) (out []reflect.Value) {
			for i := range typ.NumOut() {
				out = append(out, reflect.Zero(typ.Out(i)))
			}
			return out
		})
	}
	return v
}
