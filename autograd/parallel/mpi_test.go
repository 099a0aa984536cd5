package parallel_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm/mpi"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/ranktest"
	"github.com/cistern-ml/cistern/tensor"
)

// What the tests of refusals and hooks have on the loopback, with ranks that are processes: a small part of it, under both launchers.

const mpiProgram = "CISTERN_PARALLEL_TEST_PROGRAM"

// ofProcesses are the programs of a rank, with two ranks and a model in two buckets. After those that end the group a rank has not ended as launchers want it.
var ofProcesses = map[string]struct {
	run  func(r *rank) error
	ends bool
}{
	"a pass of an unknown graph":   {unknownGraphs, false},
	"SetGrad after Backward":       {setGradAfterBackward, false},
	"penalties and their hooks":    {penaltiesAndHooks, false},
	"a panicking hook":             {func(r *rank) error { return panickingHook(r, 2, false) }, true},
	"a panicking hook of the sum":  {func(r *rank) error { return panickingHook(r, 0, true) }, true},
	"a hook that sets another one": {hookThatSetsAnother, true},
}

func TestData_UnderMPI(t *testing.T) {
	ranktest.WithLaunchers(t, func(t *testing.T, l ranktest.Launcher) {
		for name, program := range ofProcesses {
			t.Run(name, func(t *testing.T) {
				line := append(append([]string{}, l.Command...), l.Recover...)
				line = append(line, "-n", "2", ranktest.Binary(t), "-test.run=^TestRankOfProcesses$")
				run := ranktest.Start(t, line, mpiProgram+"="+name)
				late, err := run.Wait(2 * time.Minute)
				require.False(t, late, "%s", run.Output)
				if !program.ends {
					require.NoError(t, err, "%s", run.Output)
				}
				for rank := range 2 {
					require.Contains(t, run.Output.String(), fmt.Sprintf("rank %d has ended well", rank))
				}
			})
		}
	})
}

// TestRankOfProcesses is what a launcher starts: a program, as one rank. Where nobody has started it so there is nothing to do.
func TestRankOfProcesses(t *testing.T) {
	name := os.Getenv(mpiProgram)
	if name == "" {
		return
	}
	number := -1
	t.Cleanup(func() {
		if !t.Failed() {
			fmt.Printf("rank %d has ended well\n", number)
		}
	})
	dev := host.New()
	c, err := mpi.Open(dev, mpi.Options{TimeLimit: time.Minute, Check: true})
	require.NoError(t, err)
	r := newRank(t, dev)
	r.comm, number = c, c.Rank()
	t.Cleanup(func() {
		if t.Failed() {
			c.Abort(errors.New("the test has failed"))
		}
		require.NoError(t, c.Close())
	})
	require.Equal(t, 2, c.Size())
	require.NoError(t, ofProcesses[name].run(r))
	requireNothingKept(t, []*rank{r})
}

// inTwoBuckets runs f with a model in two buckets.
func inTwoBuckets(r *rank, stage int, f func(m *nn.SequentialModule, d *parallel.DataParallel) error) error {
	m := nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
	return withModel(r, m, []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(64, 64)}, func(d *parallel.DataParallel) error { return f(m, d) })
}

// unknownGraphs are passes of graphs in which Run has run nothing, beside one that trains.
func unknownGraphs(r *rank) error {
	for stage := range 3 {
		if err := inTwoBuckets(r, stage, func(m *nn.SequentialModule, d *parallel.DataParallel) error {
			defer d.ZeroGrad()
			norm := func() float64 {
				v, err := d.ClipGradNorm(math.Inf(1))
				require.NoError(r.t, err)
				return v
			}
			if err := r.backward(d, 16); err != nil {
				return err
			}
			once := norm()
			var e *parallel.Error
			hook := m.Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { m.ZeroGrad(); return nil, nil })
			require.ErrorAs(r.t, passOf(r, m.Forward), &e)
			require.ErrorContains(r.t, e, "was not run by Run or Forward")
			require.InDelta(r.t, once, norm(), 0)
			hook.Remove()

			d.ZeroGrad()
			err := d.NoSync(func() error { return passOf(r, m.Forward) })
			if stage > 0 {
				require.ErrorContains(r.t, err, "was not run by Run or Forward")
				return nil
			}
			if err := errors.Join(err, r.backward(d, 16)); err != nil {
				return err
			}
			require.InEpsilon(r.t, 2*once, norm(), 1e-5)
			return nil
		}); err != nil {
			return fmt.Errorf("ZeRO %d: %w", stage, err)
		}
	}
	return nil
}

// setGradAfterBackward sets gradients of the model, which is refused, and of the parts, of which the step is made.
func setGradAfterBackward(r *rank) error {
	for stage := 1; stage <= 2; stage++ {
		if err := inTwoBuckets(r, stage, func(m *nn.SequentialModule, d *parallel.DataParallel) error {
			defer d.ZeroGrad()
			before, err := wholeValues(d, m)
			if err != nil {
				return err
			}
			if err := r.backward(d, 16); err != nil {
				return err
			}
			for _, p := range m.Parameters() {
				require.ErrorContains(r.t, setTo(r, 3, p), "give it to what DataParallel.ParametersOf has")
			}
			opt := optim.SGD(d.Parameters(), optim.LR(0.5))
			defer opt.Release()
			if err := errorsInTurn(func() error { return setTo(r, 3, d.Parameters()...) }, opt.Step); err != nil {
				return err
			}
			after, err := wholeValues(d, m)
			for name, v := range before {
				for i := range v {
					require.InDelta(r.t, v[i]-1.5, after[name][i], 1e-6)
				}
			}
			return err
		}); err != nil {
			return fmt.Errorf("ZeRO %d: %w", stage, err)
		}
	}
	return nil
}

// penaltiesAndHooks train with penalties of the parts, with the loss and in a graph of their own, whose passes step. Hooks are called as often as in one process, and the numbers are its own.
func penaltiesAndHooks(r *rank) error {
	train := func(m *nn.SequentialModule, ps []*autograd.Parameter, stage int, forward func(*autograd.Variable) *autograd.Variable) (hooks, posts int, err error) {
		for _, p := range m.Parameters() {
			defer p.RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { hooks++; return nil, nil }).Remove()
		}
		for _, p := range ps {
			defer p.RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { posts++; return nil }).Remove()
		}
		defer optim.SGD(ps, optim.LR(0.1)).StepInBackward()()
		for _, alone := range []bool{false, stage > 0, false} {
			g, x := r.graph(2, 16)
			var loss *autograd.Variable
			if alone {
				loss = squares(g, ps)
			} else {
				loss = forward(x).Square().Mean(nil, false).Add(squares(g, ps))
			}
			err := loss.Backward()
			g.Release()
			if err != nil {
				return hooks, posts, err
			}
		}
		return hooks, posts, nil
	}
	for stage := range 4 {
		one := nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
		if err := one.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)); err != nil {
			return err
		}
		defer one.Release()
		_, _, err := train(one, one.Parameters(), stage, one.Forward)
		want, failed := valuesOf(one)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if err := inTwoBuckets(r, stage, func(m *nn.SequentialModule, d *parallel.DataParallel) error {
			hooks, posts, err := train(m, d.Parameters(), stage, d.Forward)
			if err != nil {
				return err
			}
			passes := 3 // of the model
			if stage > 0 {
				passes = 2
			}
			require.Equal(r.t, passes*len(m.Parameters()), hooks)
			require.Equal(r.t, 3*len(d.Parameters()), posts)
			have, err := wholeValues(d, m)
			for name, v := range want {
				require.InDeltaSlice(r.t, v, have[name], 1e-5, name)
			}
			return err
		}); err != nil {
			return fmt.Errorf("ZeRO %d: %w", stage, err)
		}
	}
	return nil
}

// panickingHook has a hook of rank 1's panic, of which the other rank is told.
func panickingHook(r *rank, stage int, post bool) error {
	const what = "at the worst moment"
	return inTwoBuckets(r, stage, func(m *nn.SequentialModule, d *parallel.DataParallel) error {
		defer d.ZeroGrad()
		pass := func() error { return r.backward(d, 16) }
		if r.comm.Rank() != 1 {
			err := pass()
			if err == nil { // such a hook comes after all that its pass sends
				err = pass()
			}
			require.ErrorContains(r.t, err, "rank 1")
			require.ErrorContains(r.t, err, what)
			return nil
		}
		if post {
			d.Parameters()[0].RegisterPostAccumulateGradHook(func(*autograd.Parameter) error { panic(what) })
		} else {
			m.Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { panic(what) })
		}
		require.PanicsWithValue(r.t, what, func() { _ = pass() })
		return nil
	})
}

// hookThatSetsAnother has a hook of rank 1's set a gradient that has come to the sum, which it is refused, and return that.
func hookThatSetsAnother(r *rank) error {
	return inTwoBuckets(r, 0, func(m *nn.SequentialModule, d *parallel.DataParallel) error {
		defer d.ZeroGrad()
		if r.comm.Rank() == 1 {
			m.Parameters()[0].RegisterHook(func(*tensor.Tensor) (*tensor.Tensor, error) { return nil, setTo(r, 3, m.Parameters()[2]) })
		}
		err := r.backward(d, 16)
		require.ErrorContains(r.t, err, "rank 1")
		require.ErrorContains(r.t, err, "has come to those that the ranks sum in the backward pass under way")
		return nil
	})
}
