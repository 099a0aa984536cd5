package parallel_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
)

func TestData_TwiceIsRefused(t *testing.T) {
	for stage := range 4 {
		r := ranks(t, 1)[0]
		m := nn.Linear(16, 4)
		require.NoError(t, withModel(r, m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			others, err := comm.Loopback(r.dev)
			require.NoError(t, err)
			_, err = parallel.Data(m, others[0])
			require.ErrorContains(t, err, "another DataParallel trains it: Unshard or Close that first")
			require.NoError(t, errors.Join(r.backward(d, 16), d.Unshard(), others[0].Close()))
			d.ZeroGrad()
			m.ZeroGrad()
			again, err := parallel.Data(m, r.comm)
			require.NoError(t, err)
			return again.Close()
		}), "ZeRO %d", stage)
	}
}

func TestUnits_OfAnotherModelAreRefused(t *testing.T) {
	all := ranks(t, 1)
	other := nn.Linear(16, 4)
	err := withModel(all[0], nn.Sequential(nn.Linear(16, 4)), []parallel.Option{parallel.ZeRO(3), parallel.Units(other)}, func(*parallel.DataParallel) error { return nil })
	require.ErrorContains(t, err, "unit 0, a *nn.LinearLayer, is no module of the model")
	requireNothingKept(t, all)
}

// borrower uses a weight of one of its layers by itself.
type borrower struct {
	nn.Base
	A, B *nn.LinearLayer
}

func (m *borrower) Forward(x *autograd.Variable) *autograd.Variable {
	return m.Scope(x, func(g *autograd.Graph) *autograd.Variable {
		return m.B.Forward(m.A.Forward(x)).MatMul(g.Param(m.A.Weight))
	})
}

func TestZeRO3_AParameterOutsideOfItsUnitIsToldTheRemedy(t *testing.T) {
	pass := func(opts func(m *borrower) []parallel.Option) error {
		all := ranks(t, 1)
		defer requireNothingKept(t, all)
		m := nn.New(&borrower{A: nn.Linear(16, 16), B: nn.Linear(16, 16)})
		return withModel(all[0], m, append(opts(m), parallel.ZeRO(3)), func(d *parallel.DataParallel) error { return all[0].backward(d, 16) })
	}
	err := pass(func(*borrower) []parallel.Option { return nil })
	require.ErrorIs(t, err, autograd.ErrNotMaterialized)
	require.ErrorContains(t, err, "name a module in which all its uses are in Units")
	require.NoError(t, pass(func(m *borrower) []parallel.Option { return []parallel.Option{parallel.Units(m)} }))
}

func TestSetRequiresGrad_AfterDataIsTold(t *testing.T) {
	for _, on := range []bool{false, true} {
		for stage := range 4 {
			t.Run(fmt.Sprint(on, ", ZeRO ", stage), func(t *testing.T) {
				all := ranks(t, 1)
				m := nn.Linear(16, 4)
				m.Bias.SetRequiresGrad(!on)
				err := withModel(all[0], m, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					m.Bias.SetRequiresGrad(on)
					return all[0].backward(d, 16)
				})
				require.ErrorContains(t, err, "bias")
				require.ErrorContains(t, err, "before Data")
				requireNothingKept(t, all)
			})
		}
	}
}
