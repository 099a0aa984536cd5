package parallel_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm/mpi"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/internal/ranktest"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// The loss curves of n ranks are those of one process with n times the batch: plain, with ZeRO 1 to 3, in parts, under autocast, over 100 steps in full tests.
//
// In float32 only the order of sums differs: a gradient is off by some units of 2^-24, and a loss after 100 steps by 2e-7 as measured; 2e-6 is allowed. Under autocast the gradient of a weight is rounded to
// bfloat16, which has 8 bits, once for the whole batch or once for each part and rank: that is off by 2^-9 of itself, and a loss by 3e-3 as measured; 1e-2 is allowed. One process that cuts its batch into as many
// parts as all ranks together has the same roundings, and is compared too: 1e-3 is what it takes when a weight, by 2^-24, rounds the other way. These are steps of SGD with a small learning rate, since a large one is chaotic,
// and Adam's, where gradients are nearly zero, is the learning rate times the sign of a rounding error.

// curve is a configuration.
type curve struct {
	stage, parts int
	autocast     bool
}

func (c curve) String() string {
	return fmt.Sprintf("ZeRO %d, %d parts, autocast %v", c.stage, c.parts, c.autocast)
}

func curves() (all []curve) {
	for _, autocast := range []bool{false, true} {
		for _, parts := range []int{1, 2} {
			for stage := range 4 {
				all = append(all, curve{stage, parts, autocast})
			}
		}
	}
	return all
}

func (c curve) training(steps int) training {
	t := training{opt: gentle, steps: steps, batch: 16, accumulate: c.parts, seed: 3, options: []parallel.Option{parallel.ZeRO(c.stage), parallel.BucketBytes(200, 1000)}}
	if c.autocast {
		t.autocast = tensor.BFloat16
	}
	t.defaults()
	return t
}

// requireCurve compares the losses of n ranks with those of one process, in which something must have been learned.
func requireCurve(t *testing.T, c curve, n, steps int, have []float64) {
	t.Helper()
	whole, parts := 2e-6, 2e-6
	if c.autocast {
		whole, parts = 1e-2, 1e-3
	}
	one := c.training(steps)
	require.InDeltaSlice(t, single(t, one).losses, have, whole, "%v, %d ranks", c, n)
	one.accumulate *= n
	require.InDeltaSlice(t, single(t, one).losses, have, parts, "%v, %d ranks, in as many parts", c, n)
	require.Len(t, have, steps)
	if steps >= 20 {
		require.Less(t, have[steps-1], 0.9*have[0], "%v, %d ranks", c, n)
	}
}

func TestCurves_OfRanksInOneProcess(t *testing.T) {
	steps := fulltests.Or(100, 6)
	for _, c := range curves() {
		for _, n := range []int{2, 4}[:fulltests.Or(2, 1)] {
			requireCurve(t, c, n, steps, trained(t, n, c.training(steps)).losses)
		}
	}
}

// The ranks under a launcher are this test binary.
const (
	curvesFolder = "CISTERN_CURVES_FOLDER"
	curvesSteps  = "CISTERN_CURVES_STEPS"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(curvesFolder); folder != "" {
		if err := curvesOfRank(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// curvesOfRank trains all configurations one after the other, and writes the losses to a file of the rank.
func curvesOfRank(folder string) (err error) {
	steps, err := strconv.Atoi(os.Getenv(curvesSteps))
	if err != nil {
		return err
	}
	dev := host.New()
	c, err := mpi.Open(dev, mpi.Options{TimeLimit: time.Minute})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	alloc, err := memory.New(dev, memory.Config{})
	if err != nil {
		return err
	}
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	if err != nil {
		return err
	}
	all := map[string][]float64{}
	for _, one := range curves() {
		t := one.training(steps)
		res, err := t.run(&rank{dev: dev, alloc: alloc, comm: c, exec: e})
		if err != nil {
			c.Abort(err)
			return fmt.Errorf("%v: %w", one, err)
		}
		all[one.String()] = res.losses
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, strconv.Itoa(c.Rank())), text, 0o600)
}

func TestCurves_UnderMPI(t *testing.T) {
	steps := fulltests.Or(100, 6)
	ranktest.WithLaunchers(t, func(t *testing.T, l ranktest.Launcher) {
		for _, n := range []int{2, 4}[:fulltests.Or(2, 1)] {
			t.Run(fmt.Sprintf("%d ranks", n), func(t *testing.T) {
				folder := t.TempDir()
				line := append(append([]string{}, l.Command...), "-n", strconv.Itoa(n), ranktest.Binary(t))
				run := ranktest.Start(t, line, curvesFolder+"="+folder, fmt.Sprintf("%s=%d", curvesSteps, steps))
				late, err := run.Wait(4 * time.Minute)
				require.NoError(t, err, "late %v: %s", late, run.Output)
				mean := meanCurves(t, folder, n)
				for _, c := range curves() {
					requireCurve(t, c, n, steps, mean[c.String()])
				}
			})
		}
	})
}

// meanCurves is the mean of the ranks' losses.
func meanCurves(t *testing.T, folder string, n int) map[string][]float64 {
	t.Helper()
	mean := map[string][]float64{}
	for rank := range n {
		text, err := os.ReadFile(filepath.Join(folder, strconv.Itoa(rank)))
		require.NoError(t, err)
		var own map[string][]float64
		require.NoError(t, json.Unmarshal(text, &own))
		for name, losses := range own {
			if mean[name] == nil {
				mean[name] = make([]float64, len(losses))
			}
			for i, v := range losses {
				mean[name][i] += v / float64(n)
			}
		}
	}
	return mean
}

func gentle(ps []*autograd.Parameter) *optim.Grouped {
	return optim.SGD(ps, optim.LR(0.02), optim.Momentum(0.9))
}
