package parallel_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// What ranks would save differently is refused before anything is written: the checkpoint that was there stays.
func TestCheckpoint_RefusesWhatRanksSaveDifferently(t *testing.T) {
	best := func(c *parallel.Checkpoint) *parallel.Checkpoint { return c.Add("zbest", checkpoint.Value(new(int))) }
	own := func(c *parallel.Checkpoint) *parallel.Checkpoint {
		return c.AddOwn("zbest", checkpoint.Value(new(int)))
	}
	for name, set := range map[string]struct {
		first, second func(c *parallel.Checkpoint) *parallel.Checkpoint
		step          int
		says          string
	}{
		"a section more":  {nil, best, 2, `rank 1 saves section "zbest" by Add, where rank 0 saves nothing more`},
		"a section less":  {best, nil, 2, `rank 1 saves nothing more, where rank 0 saves section "zbest" by Add`},
		"Add and AddOwn":  {best, own, 2, `rank 1 saves section "zbest" by AddOwn, where rank 0 saves section "zbest" by Add`},
		"AddOwn on one":   {own, nil, 2, `rank 1 saves nothing more, where rank 0 saves section "zbest" by AddOwn`},
		"different steps": {nil, nil, 3, "rank 1 saves step 3, where rank 0 saves step 2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			checkpointed(t, 2, dir, func(k *kept) error {
				c, step, other := k.checkpoint(), 2, set.first
				if k.r.comm.Rank() == 1 {
					step, other = set.step, set.second
				}
				if other != nil {
					c = other(c)
				}
				var wrong *checkpoint.MismatchError
				err := c.Write(t.Context(), dir, step)
				require.ErrorAs(t, err, &wrong)
				require.ErrorContains(t, err, set.says)
				saved, err := k.ck.Read(t.Context(), dir)
				require.Equal(t, 1, saved.Step)
				return err
			})
		})
	}
}

func TestCheckpoint_RefusesOptimizersWithOtherSettings(t *testing.T) {
	dir := t.TempDir()
	checkpointed(t, 0, dir, func(k *kept) error {
		k.opt.SetLR(0.5 + float64(k.r.comm.Rank()))
		err := k.ck.Write(t.Context(), dir, 2)
		require.ErrorContains(t, err, `"lr":1.5`)
		require.ErrorContains(t, err, `"lr":0.5`)
		_, err = k.ck.Read(t.Context(), dir)
		return err
	})
}

func TestCheckpoint_WriteRemovesWhatKilledOnesLeft(t *testing.T) {
	dir := t.TempDir()
	checkpointed(t, 1, dir, func(k *kept) error {
		if k.r.comm.Rank() == 0 {
			for _, name := range []string{"part-00000-of-00002-0123456789abcdef.safetensors.cistern-0123456789abcdef.tmp", "part-00001-of-00002-0123456789abcdef.safetensors"} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.safetensors"), nil, 0o666))
		}
		return k.ck.Write(t.Context(), dir, 2)
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "the index, two parts, and what is not ours")
}

func TestCheckpoint_RefusesAnOptimizerOfFewerParameters(t *testing.T) {
	for _, stage := range []int{0, 2} {
		dir := t.TempDir()
		checkpointed(t, stage, dir, func(k *kept) error {
			fewer := optim.AdamW(k.d.Parameters()[:1])
			defer fewer.Release()
			c := training{}
			_, err := c.sections(parallel.NewCheckpoint(k.d), fewer, amp.NewGradScaler(amp.Enabled(false)), tensor.NewGenerator(1)).Read(t.Context(), dir)
			var wrong *checkpoint.MismatchError
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, "the optimizer has not the parameter ")
			return nil
		})
	}
}

func TestCheckpoint_IsNotForWhole(t *testing.T) {
	for _, stage := range []int{0, 1, 3} {
		dir := t.TempDir()
		checkpointed(t, stage, dir, func(k *kept) error {
			return k.d.Whole(func() error {
				require.ErrorContains(t, k.ck.Write(t.Context(), dir, 2), "within Whole")
				_, err := k.ck.Read(t.Context(), dir)
				require.ErrorContains(t, err, "within Whole")
				return nil
			})
		})
	}
}

func TestCheckpoint_ModelOnlyLeavesOutTheRest(t *testing.T) {
	dir := t.TempDir()
	var want []float64
	checkpointed(t, 3, dir, func(k *kept) error {
		values := k.state(t)
		if k.r.comm.Rank() == 0 {
			want = values
		}
		return nil
	})
	r := ranks(t, 1)[0]
	model := nn.Sequential(nn.Linear(inputs, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
	require.NoError(t, model.To(r.dev, nn.Seed(99)))
	defer model.Release()
	_, err := parallel.PlainCheckpoint(model).Read(t.Context(), dir)
	require.ErrorContains(t, err, "the checkpoint has this section, the program has not")
	saved, err := parallel.PlainCheckpoint(model).ModelOnly().Read(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, parallel.Saved{Step: 1, Ranks: 2, Stage: 3}, saved)
	var have []float64
	for _, n := range nn.NamedState(model) {
		have = append(have, must(n.Parameter.Tensor().Float64s())...)
	}
	require.Equal(t, want[:len(have)], have)
	var none *parallel.Checkpoint
	_, err = none.ModelOnly().Read(t.Context(), dir)
	require.True(t, errors.As(err, new(*parallel.Error)))
}

// A step is a count: nothing is written for one that is negative.
func TestWrite_OfANegativeStepIsRefused(t *testing.T) {
	for _, on := range [][]int{{-1, -1}, {2, -1}} {
		dir := filepath.Join(t.TempDir(), "run")
		all := ranks(t, 2)
		for i, err := range together(all, func(r *rank) error {
			return withModel(r, even(), []parallel.Option{parallel.ZeRO(1)}, func(d *parallel.DataParallel) error {
				return parallel.NewCheckpoint(d).Write(t.Context(), dir, on[r.comm.Rank()])
			})
		}) {
			var e *parallel.CheckpointError
			require.ErrorAs(t, err, &e, "rank %d", i)
			require.ErrorContains(t, err, "step -1; it must not be negative")
		}
		_, err := os.Stat(dir)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	dir := t.TempDir()
	m := even()
	require.NoError(t, m.To(ranks(t, 1)[0].dev))
	defer m.Release()
	require.ErrorContains(t, parallel.PlainCheckpoint(m).Write(t.Context(), dir, -1), "step -1; it must not be negative")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}
