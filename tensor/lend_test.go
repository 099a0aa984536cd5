package tensor_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/pinned"
	"github.com/cistern-ml/cistern/tensor"
)

func TestSafetyNet_IsUnderTheResultsOfAllOperations(t *testing.T) {
	b := onHost(t)
	for _, s := range samples {
		for _, strided := range []bool{false, true} { // strided: temporaries are made
			in := s.inputs(t, b.Exec)
			for i, x := range in {
				if strided && x.NDim() > 1 {
					in[i] = must(t)(must(t)(must(t)(x.Transpose(0, -1)).Contiguous()).Transpose(0, -1))
				}
			}
			r, err := s.run(in)
			if strided && err != nil {
				continue // a view
			}
			require.NoError(t, err, s)
			require.Equal(t, b.Exec, r.Exec(), s)
			r.Release()

			lent := slices.Clone(in)
			for i, x := range in {
				lent[i] = must(t)(x.On(b.Exec.Owned()), nil).Lend(b.Exec)
			}
			r, err = s.run(lent)
			require.NoError(t, err, s)
			require.Equal(t, b.Exec, r.Exec(), "%s of borrowed operands", s)
			r.Release()
		}
	}
}

func TestSafetyNet_IsUnderTheResultsOfRecurrentLayers(t *testing.T) {
	b := onHost(t)
	for _, gru := range []bool{false, true} {
		for _, reuse := range []bool{false, true} {
			r := recurrentLayer(t, b, gru, 3, 2, 4, 5, func(shape ...int) *tensor.Tensor { return iota(t, b.Exec, shape...) })
			r.H0 = must(t)(must(t)(must(t)(r.H0.T()).Contiguous()).T())
			s, err := r.Forward(true)
			require.NoError(t, err)
			dy := must(t)(s.Output.Clone())
			g, err := gradients.Recurrent(r, s, dy, nil, nil, training.Wants{X: true, WeightIH: true, WeightHH: true, Bias: true}, reuse)
			require.NoError(t, err)
			for _, x := range []*tensor.Tensor{s.Output, s.H, s.C, s.Gates, s.Inner, g.X, g.H0, g.C0, g.WeightIH, g.WeightHH, g.BiasIH, g.BiasHH} {
				if x != nil {
					require.Equal(t, b.Exec, x.Exec())
				}
			}
			s.Release()
			g.Release()
		}
	}
}

func TestLend_GivesAHandleThatLivesAsLongAsItsOwner(t *testing.T) {
	b, w := watching(t)
	owner, err := tensor.FromSlice(b.Exec.Owned(), []float64{0, 1, 2, 3}, 2, 2)
	require.NoError(t, err)
	lent := owner.Lend(b.Exec)
	require.True(t, lent.Borrowed())
	require.False(t, owner.Borrowed())
	require.True(t, owner.Exclusive(), "no reference")
	require.True(t, lent.SharesStorage(owner))
	require.Equal(t, owner.Shape(), lent.Shape())
	require.Equal(t, []float64{0, 1, 2, 3}, values(t, lent))

	other := owner.Lend(b.Exec)
	other.Release()
	require.True(t, other.Released())
	require.False(t, owner.Released())
	require.False(t, lent.Released())

	again := lent.Lend(b.Exec) // of a borrowed one
	view, err := again.T()
	require.NoError(t, err)
	require.False(t, view.Borrowed(), "what is made of it is the maker's")
	owner.Release()
	require.True(t, lent.Released())
	require.True(t, again.Released())
	require.ErrorIs(t, lent.Synchronize(t.Context()), tensor.ErrReleased)
	require.True(t, lent.Retain().Released())
	require.Equal(t, []float64{0, 2, 1, 3}, values(t, view))
	view = nil
	collect(t, func() bool { return w.count() == 1 })
	drain(t, b)
	require.Zero(t, b.allocated())

	var none *tensor.Tensor
	require.Nil(t, none.Lend(b.Exec))
	require.False(t, none.Borrowed())
	elsewhere, _ := onSim(t)
	misplaced := iota(t, b.Exec, 2)
	_, err = misplaced.Lend(elsewhere.Exec).Neg()
	var wrong *tensor.DeviceError
	require.ErrorAs(t, err, &wrong)
	_, err = misplaced.Lend(tensor.Exec{}).Neg()
	require.ErrorAs(t, err, &wrong)
	misplaced.Release()
}

//go:noinline
func losePinned(t *testing.T, x *tensor.Tensor) {
	_, err := x.CopyToHost(true)
	require.NoError(t, err)
}

func TestSafetyNet_GivesPinnedCopiesBack(t *testing.T) {
	dev := sim.New(1 << 30)
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	b := newBench(t, dev, alloc)
	t.Cleanup(func() { require.NoError(t, memory.Drop(dev)) })
	x := must(t)(tensor.Zeros(b.Exec, tensor.Float32, 1024))
	pool, err := pinned.For(dev)
	require.NoError(t, err)
	losePinned(t, x)
	require.NotZero(t, pool.Stats().ActiveBytes.Current)
	for deadline := time.Now().Add(10 * time.Second); pool.Stats().ActiveBytes.Current > 0 && time.Now().Before(deadline); runtime.Gosched() {
		runtime.GC()
		require.NoError(t, pool.EmptyCache()) // it looks for copies that are done
	}
	require.Zero(t, pool.Stats().ActiveBytes.Current)
	x.Release()
}
