package parallel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/tensor"
)

// saving is a training whose model has all that a checkpoint has to hold: a buffer, a frozen parameter, random numbers.
func saving(stage int) training {
	return training{
		model: func() nn.Layer {
			frozen := nn.Linear(16, 12)
			for _, p := range frozen.Parameters() {
				p.SetRequiresGrad(false)
			}
			return nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), frozen, nn.Dropout(0.1), nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, classes))
		},
		options: []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(200, 1000)},
		steps:   3, seed: 3, batch: 16,
	}
}

func growing(d *parallel.DataParallel) *amp.GradScaler {
	opts := []amp.ScalerOption{amp.InitScale(1 << 10), amp.GrowthInterval(2)}
	if d != nil {
		opts = append(opts, amp.AgreedBy(d))
	}
	return amp.NewGradScaler(opts...)
}

// Six steps are three, a checkpoint, and three more in a new group: bit for bit.
func TestCheckpoint_GoesOnBitForBit(t *testing.T) {
	for stage := range 4 {
		for name, set := range map[string]func(c *training){
			"float32":         func(*training) {},
			"parts":           func(c *training) { c.accumulate = 2 },
			"float16, scaler": func(c *training) { c.autocast, c.scaler = tensor.Float16, growing },
			"master weights": func(c *training) {
				c.dtype = tensor.BFloat16
				if stage > 0 {
					c.options = append(c.options, parallel.MasterWeights())
				}
			},
			"own buffers": func(c *training) { c.options = append(c.options, parallel.BroadcastBuffers(false)) },
			"momentum":    func(c *training) { c.opt = sgd },
			"NAdam": func(c *training) { // which has a number for the whole parameter
				c.opt = func(ps []*autograd.Parameter) *optim.Grouped { return optim.NAdam(ps) }
			},
		} {
			t.Run(fmt.Sprintf("ZeRO %d, %s", stage, name), func(t *testing.T) {
				c := saving(stage)
				set(&c)
				whole := c
				whole.steps = 6
				want := trained(t, 2, whole)
				c.save = t.TempDir()
				first := trained(t, 2, c)
				c.load, c.save, c.seed = c.save, "", 99
				rest := trained(t, 2, c)
				require.Equal(t, parallel.Saved{Step: 3, Ranks: 2, Stage: stage, Own: true}, rest.saved)
				require.Equal(t, want.losses, append(first.losses, rest.losses...))
				require.Equal(t, want.values, rest.values)
			})
		}
	}
}

// It is read by any number of ranks, with any stage, and by none at all. Without random numbers, which are each rank's own, what comes then is the same within round-off.
func TestCheckpoint_IsReadByOtherRanksAndStages(t *testing.T) {
	set := func(stage int) training {
		c := saving(stage)
		c.model = func() nn.Layer {
			return nn.Sequential(nn.Linear(inputs, 17), nn.LayerNorm([]int{17}), nn.Linear(17, 9), nn.Tanh(), nn.Linear(9, classes))
		}
		return c
	}
	six := set(0)
	six.steps = 6
	want := single(t, six)
	for _, from := range []struct{ ranks, stage int }{{1, 0}, {2, 3}, {4, 0}, {4, 1}, {4, 2}, {0, 0}} {
		c := set(from.stage)
		c.save = t.TempDir()
		if from.ranks == 0 {
			single(t, c)
		} else {
			trained(t, from.ranks, c)
		}
		for _, to := range []struct{ ranks, stage int }{{1, 0}, {2, 0}, {2, 1}, {2, 2}, {4, 3}, {3, 2}, {0, 0}} {
			t.Run(fmt.Sprintf("%+v to %+v", from, to), func(t *testing.T) {
				next := set(to.stage)
				next.load, next.seed = c.save, 99
				var have result
				if next.batch = 16; to.ranks == 3 {
					next.batch = 24
				}
				if to.ranks == 0 {
					have = single(t, next)
				} else {
					have = trained(t, to.ranks, next)
				}
				require.Equal(t, parallel.Saved{Step: 3, Ranks: max(from.ranks, 1), Stage: from.stage, Own: max(from.ranks, 1) == max(to.ranks, 1)}, have.saved)
				if to.ranks == 3 { // another batch: only that it goes on
					return
				}
				want := result{losses: want.losses[3:], values: want.values}
				requireClose(t, want, have, 2e-4)
			})
		}
	}
}

// What has float32 beside it, and what has not, read each other's.
func TestCheckpoint_ConvertsTypes(t *testing.T) {
	c := saving(2)
	c.dtype, c.options, c.save = tensor.BFloat16, append(c.options, parallel.MasterWeights()), t.TempDir()
	want := trained(t, 2, c)
	for name, set := range map[string]func(c *training){
		"without master weights": func(c *training) { c.options = c.options[:2] },
		"with":                   func(*training) {},
		"ZeRO 3":                 func(c *training) { c.options = append(c.options, parallel.ZeRO(3)) },
		"ZeRO 1":                 func(c *training) { c.options = append(c.options, parallel.ZeRO(1)) },
	} {
		next := c
		next.load, next.save, next.steps, next.seed = c.save, "", 0, 50
		next.options = append([]parallel.Option(nil), c.options...)
		set(&next)
		next.none = true
		require.Equal(t, want.values, trained(t, 2, next).values, name)
	}
}

// The number of a generator is each rank's own, and stays what it is with other ranks.
func TestCheckpoint_GivesEachRankItsOwn(t *testing.T) {
	dir := t.TempDir()
	run := func(n int, f func(r *rank, ck *parallel.Checkpoint, own *int, all *int) error) {
		for _, err := range together(ranks(t, n), func(r *rank) error {
			return withModel(r, even(), nil, func(d *parallel.DataParallel) error {
				own, all := 10+r.comm.Rank(), 20+r.comm.Rank()
				return f(r, parallel.NewCheckpoint(d).AddOwn("own", checkpoint.Value(&own)).Add("all", checkpoint.Value(&all)), &own, &all)
			})
		}) {
			require.NoError(t, err)
		}
	}
	run(2, func(r *rank, ck *parallel.Checkpoint, _, _ *int) error { return ck.Write(t.Context(), dir, 5) })
	for _, n := range []int{2, 3} {
		run(n, func(r *rank, ck *parallel.Checkpoint, own, all *int) error {
			*own, *all = 0, 0
			saved, err := ck.Read(t.Context(), dir)
			require.Equal(t, parallel.Saved{Step: 5, Ranks: 2, Own: n == 2}, saved)
			require.Equal(t, 20, *all)
			if n == 2 {
				require.Equal(t, 10+r.comm.Rank(), *own)
			} else {
				require.Zero(t, *own)
			}
			return err
		})
	}
}

// The groups of an optimizer are matched by the names of their parameters, and have their settings.
func TestCheckpoint_KeepsGroups(t *testing.T) {
	dir, rates := t.TempDir(), [2]float64{}
	for n, stage := range map[int]int{2: 2, 4: 3} {
		for i, err := range together(ranks(t, n), func(r *rank) error {
			return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
				var first, rest []*autograd.Parameter
				for i, p := range nn.NamedParameters(d.Module()) {
					if of := d.ParametersOf(p.Parameter); i%2 == 0 {
						first = append(first, of...)
					} else {
						rest = append(rest, of...)
					}
				}
				opt := optim.AdamW(first, optim.LR(0.5)).AddGroup(rest, optim.LR(0.25))
				defer opt.Release()
				ck := parallel.NewCheckpoint(d).Optimizer("optimizer", opt)
				if stage == 2 {
					if err := r.backward(d, 64); err != nil {
						return err
					}
					opt.SetLR(0.125, 1)
					if err := opt.Step(); err != nil {
						return err
					}
					return ck.Write(t.Context(), dir, 1)
				}
				return nil
			})
		}) {
			require.NoError(t, err, "rank %d", i)
		}
	}
	model := even()
	r := ranks(t, 1)[0]
	require.NoError(t, model.To(r.dev, nn.WithAllocator(r.alloc)))
	defer model.Release()
	var first, rest []*autograd.Parameter
	for i, p := range model.Parameters() {
		if i%2 == 0 {
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	opt := optim.AdamW(first).AddGroup(rest)
	defer opt.Release()
	_, err := parallel.PlainCheckpoint(model).Optimizer("optimizer", opt).Read(t.Context(), dir)
	require.NoError(t, err)
	rates[0], rates[1] = opt.LR(0), opt.LR(1)
	require.Equal(t, [2]float64{0.5, 0.125}, rates)
	wrong := optim.AdamW(rest).AddGroup(first)
	defer wrong.Release()
	_, err = parallel.PlainCheckpoint(model).Optimizer("optimizer", wrong).Read(t.Context(), dir)
	require.ErrorContains(t, err, "group 0 has not the parameter")
	var mismatch *checkpoint.MismatchError
	require.ErrorAs(t, err, &mismatch)
}

// files are those of a checkpoint of two ranks.
func written(t *testing.T, stage, step int) (dir string, c training) {
	t.Helper()
	c = saving(stage)
	c.save, c.steps = t.TempDir(), step
	trained(t, 2, c)
	return c.save, c
}

func partsIn(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "part-*"))
	require.NoError(t, err)
	return all
}

// Whatever is wrong with a checkpoint is the same error on all ranks, and leaves them as they were; the group goes on.
func TestCheckpoint_WhatIsWrongIsOneErrorOfAllRanks(t *testing.T) {
	var format *checkpoint.FormatError
	var mismatch *checkpoint.MismatchError
	var file *checkpoint.FileError
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir string, parts []string)
		set  func(c *training)
		want any
		text string
	}{
		"a part is missing": {func(t *testing.T, _ string, parts []string) { require.NoError(t, os.Remove(parts[1])) }, nil, &file, "open"},
		"no index": {func(t *testing.T, dir string, _ []string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "index.json")))
		}, nil, &file, "index.json"},
		"a part is cut short": {func(t *testing.T, _ string, parts []string) {
			change(t, parts[0], func(b []byte) []byte { return b[:len(b)-4] })
		}, nil, &format, "it ends early"},
		"a part has more": {func(t *testing.T, _ string, parts []string) {
			change(t, parts[0], func(b []byte) []byte { return append(b, 0) })
		}, nil, &format, "there is more"},
		"a wrong byte": {func(t *testing.T, _ string, parts []string) {
			change(t, parts[1], func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, nil, &format, "checksum"},
		"a part of another": {func(t *testing.T, _ string, parts []string) {
			other, _ := written(t, 2, 1)
			b, err := os.ReadFile(partsIn(t, other)[1])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(parts[1], b, 0o600))
		}, nil, &format, "another checkpoint"},
		"parts exchanged": {func(t *testing.T, _ string, parts []string) {
			b, err := os.ReadFile(parts[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(parts[1], b, 0o600))
		}, nil, &format, "another checkpoint"},
		"the index is damaged": {func(t *testing.T, dir string, _ []string) {
			change(t, filepath.Join(dir, "index.json"), func(b []byte) []byte { return []byte(strings.Replace(string(b), `"step": 1`, `"step": 2`, 1)) })
		}, nil, &format, "checksum"},
		"the index is cut short": {func(t *testing.T, dir string, _ []string) {
			change(t, filepath.Join(dir, "index.json"), func(b []byte) []byte { return b[:len(b)/2] })
		}, nil, &format, "the index is not what Write writes"},
		"another model": {nil, func(c *training) {
			c.model = func() nn.Layer { return nn.Sequential(nn.Linear(inputs, 30), nn.Linear(30, classes)) }
		}, &mismatch, "0.weight: wanted shape [30, 12], found shape [16, 12]"},
		"another optimizer": {nil, func(c *training) { c.opt = sgd }, nil, "AdamW"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, saved := written(t, 2, 1)
			if c.harm != nil {
				c.harm(t, dir, partsIn(t, dir))
			}
			next := saved
			next.save, next.steps = "", 1
			if c.set != nil {
				c.set(&next)
			}
			next.defaults()
			all := ranks(t, 4)
			texts := make([]string, len(all))
			var one sync.Mutex
			for i, err := range together(all, func(r *rank) error {
				model := next.model()
				if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)); err != nil {
					return err
				}
				defer model.Release()
				d, err := parallel.Data(model, r.comm, parallel.ZeRO(3))
				if err != nil {
					return err
				}
				defer func() { require.NoError(t, d.Close()) }()
				opt := next.opt(d.Parameters())
				defer opt.Release()
				values := func() (v map[string][]float64) {
					require.NoError(t, d.Whole(func() error { v = must(valuesOf(model)); return nil }))
					return v
				}
				before := values()
				scaler := amp.NewGradScaler(amp.Enabled(false))
				_, err = next.sections(parallel.NewCheckpoint(d), opt, scaler, tensor.NewGenerator(1)).Read(t.Context(), dir)
				require.Error(t, err)
				require.Equal(t, before, values())
				require.ErrorContains(t, err, c.text)
				if c.want != nil {
					one.Lock() // the ranks find the same target
					found := errors.As(err, c.want)
					one.Unlock()
					require.True(t, found, "rank %d: %v", r.comm.Rank(), err)
				}
				var failed *parallel.CheckpointError
				require.ErrorAs(t, err, &failed)
				texts[r.comm.Rank()] = err.Error()
				return r.backward(d, inputs)
			}) {
				require.NoError(t, err, "rank %d", i)
			}
			for _, text := range texts[1:] {
				require.Equal(t, texts[0], text)
			}
			requireNothingKept(t, all)
		})
	}
	require.True(t, format != nil && mismatch != nil && file != nil)
	require.ErrorIs(t, file, fs.ErrNotExist, "also where another rank has found out")
}

// change changes a file.
func change(t *testing.T, file string, f func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, f(b), 0o600))
}

// A Write replaces the parts of the one before, and what a killed one has left.
func TestCheckpoint_RemovesPartsWithoutAnIndex(t *testing.T) {
	dir, c := written(t, 1, 1)
	old := partsIn(t, dir)
	left := filepath.Join(dir, "part-00000-of-00002-0123456789abcdef.safetensors")
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	mine := filepath.Join(dir, "part-of-something-else.safetensors")
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	c.load = dir
	trained(t, 2, c)
	now := partsIn(t, dir)
	require.Len(t, now, 3)
	require.Contains(t, now, mine)
	for _, name := range append(old, left) {
		require.NotContains(t, now, name)
	}
}

// Each element is written once, and the ranks write about as much.
func TestCheckpoint_WritesEachElementOnce(t *testing.T) {
	for stage := range 4 {
		dir, _ := written(t, stage, 1)
		text, err := os.ReadFile(filepath.Join(dir, "index.json"))
		require.NoError(t, err)
		var x struct {
			Ranks, Step, Zero int
			Files             []struct{ Bytes int }
			Tensors           map[string]struct {
				Shape []int
				Parts []struct{ File, From, Count int }
			}
		}
		require.NoError(t, json.Unmarshal(text, &x))
		require.Equal(t, []int{2, 1, stage}, []int{x.Ranks, x.Step, x.Zero})
		elements := make([]int, len(x.Files))
		for _, t := range x.Tensors {
			for _, p := range t.Parts {
				elements[p.File] += p.Count
			}
		}
		trainable := inputs*16 + 16 + 2*16 + 12*7 + 7 + 7*classes + classes
		require.Equal(t, 3*trainable+16*12+12+2*16+1, elements[0]+elements[1], "values and two moments, what is frozen, and buffers")
		require.InDelta(t, elements[0], elements[1], 0.4*float64(elements[0]))
	}
}

// A context that is done on one rank ends Write and Read on all, with the old checkpoint.
func TestCheckpoint_EndsWithTheContextOfAnyRank(t *testing.T) {
	dir, c := written(t, 2, 1)
	c.defaults()
	for i, err := range together(ranks(t, 2), func(r *rank) error {
		return withModel(r, c.model(), c.options, func(d *parallel.DataParallel) error {
			opt := c.opt(d.Parameters())
			defer opt.Release()
			ck := c.sections(parallel.NewCheckpoint(d), opt, amp.NewGradScaler(amp.Enabled(false)), tensor.NewGenerator(1))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if r.comm.Rank() == 1 {
				cancel()
			}
			err := ck.Write(ctx, dir, 9)
			require.ErrorContains(t, err, "rank 1: context canceled")
			require.ErrorIs(t, err, context.Canceled)
			_, err = ck.Read(ctx, dir)
			require.ErrorContains(t, err, "rank 1: context canceled")
			require.ErrorIs(t, err, context.Canceled)
			saved, err := ck.Read(t.Context(), dir)
			require.Equal(t, 1, saved.Step)
			return err
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
	require.Len(t, partsIn(t, dir), 2)
}
