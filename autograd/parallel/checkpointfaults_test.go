package parallel_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/atomicfile"
	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// poorDisk is a file system of which one call fails; removing files is a favour, which has nobody to tell.
type poorDisk struct {
	parallel.System
	*nth
	after bool // the failing call does its work first, as a disk may
	dead  bool // nothing happens any more from the failing call on, as when a process is killed
}

func (s *poorDisk) call() error {
	if n := s.calls.Add(1); n == s.at || s.dead && n > s.at {
		return errInjected
	}
	return nil
}

func (s *poorDisk) Remove(path string) error {
	if s.dead && s.calls.Load() >= s.at {
		return errInjected
	}
	return s.System.Remove(path)
}

func (s *poorDisk) try(do func() error) error {
	failed := s.call()
	if failed == nil || s.after {
		if err := do(); err != nil {
			return err
		}
	}
	return failed
}

func (s *poorDisk) MakeFolder(path string) error {
	return s.try(func() error { return s.System.MakeFolder(path) })
}

func (s *poorDisk) EvalSymlinks(path string) (string, error) {
	if err := s.call(); err != nil {
		return "", err
	}
	return s.System.EvalSymlinks(path)
}

func (s *poorDisk) Lstat(path string) (fs.FileInfo, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.System.Lstat(path)
}

func (s *poorDisk) Rename(from, to string) error {
	return s.try(func() error { return s.System.Rename(from, to) })
}

func (s *poorDisk) Create(path string, mode fs.FileMode) (atomicfile.File, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	f, err := s.System.Create(path, mode)
	return &poorFile{f, s}, err
}

func (s *poorDisk) OpenDir(path string) (atomicfile.Dir, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	d, err := s.System.OpenDir(path)
	return poorDir{d, s}, err
}

func (s *poorDisk) OpenPart(path string) (parallel.PartFile, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	f, err := s.System.OpenPart(path)
	return poorPart{f, s}, err
}

type poorFile struct {
	atomicfile.File
	s *poorDisk
}

func (f *poorFile) Write(b []byte) (int, error) {
	if err := f.s.call(); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

func (f *poorFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.s.call(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

func (f *poorFile) Sync() error  { return f.s.try(f.File.Sync) }
func (f *poorFile) Close() error { return f.s.try(f.File.Close) }

type poorDir struct {
	atomicfile.Dir
	s *poorDisk
}

func (d poorDir) Sync() error { return d.s.try(d.Dir.Sync) }

type poorPart struct {
	parallel.PartFile
	s *poorDisk
}

func (p poorPart) Size() (int64, error) {
	if err := p.s.call(); err != nil {
		return 0, err
	}
	return p.PartFile.Size()
}

func (p poorPart) ReadAt(b []byte, at int64) (int, error) {
	if err := p.s.call(); err != nil {
		return 0, err
	}
	return p.PartFile.ReadAt(b, at)
}

// kept is a training of two ranks that a test saves and loads.
type kept struct {
	r     *rank
	d     *parallel.DataParallel
	model nn.Layer
	opt   *optim.Grouped
	ck    *parallel.Checkpoint
}

// checkpointed runs f on two ranks that have a checkpoint of step 1 in the folder.
func checkpointed(t *testing.T, stage int, dir string, f func(k *kept) error) []*rank {
	t.Helper()
	all := ranks(t, 2)
	for i, err := range together(all, func(r *rank) error {
		model := nn.Sequential(nn.Linear(inputs, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
		return withModel(r, model, []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
			k := &kept{r: r, d: d, model: model, opt: optim.AdamW(d.Parameters())}
			defer k.opt.Release()
			k.ck = k.checkpoint()
			if err := errors.Join(r.backward(d, inputs), k.opt.Step()); err != nil {
				return err
			}
			k.opt.ZeroGrad()
			if err := k.ck.Write(t.Context(), dir, 1); err != nil {
				return err
			}
			return f(k)
		})
	}) {
		require.NoError(t, err, "rank %d", i)
	}
	return all
}

func (k *kept) checkpoint() *parallel.Checkpoint {
	c := training{}
	return c.sections(parallel.NewCheckpoint(k.d), k.opt, amp.NewGradScaler(amp.Enabled(false)), tensor.NewGenerator(1))
}

// state is what a checkpoint holds: values, and moments.
func (k *kept) state(t *testing.T) (all []float64) {
	require.NoError(t, k.d.Whole(func() error {
		for _, n := range nn.NamedState(k.model) {
			all = append(all, must(n.Parameter.Tensor().Float64s())...)
		}
		return nil
	}))
	dict := must(k.opt.StateDict())
	for _, n := range slices.Sorted(maps.Keys(dict.State)) {
		s := dict.State[n]
		all = append(all, float64(s.Step))
		for _, name := range []string{"exp_avg", "exp_avg_sq"} {
			all = append(all, must(s.Tensors[name].Float64s())...)
		}
	}
	return all
}

// Each call of the file system that fails on a rank is the error of both, after which the folder has a checkpoint that can be read: the old one, or where the index was renamed the new one.
func TestCheckpoint_EveryFileCallThatFails(t *testing.T) {
	for _, victim := range []int{0, 1} {
		for _, how := range []string{"fails", "fails after", "dies"} {
			t.Run(fmt.Sprintf("rank %d %s", victim, how), func(t *testing.T) {
				failed := 0
				everyNth(t, 11, func(t *testing.T, at int64) bool {
					n, dir := &nth{at: at}, t.TempDir()
					all := checkpointed(t, 1, dir, func(k *kept) error {
						if k.r.comm.Rank() == victim {
							k.ck.On(&poorDisk{nth: n, after: how == "fails after", dead: how == "dies"})
						}
						old := k.state(t)
						wrote := k.ck.Write(t.Context(), dir, 2)
						if wrote != nil {
							require.ErrorContains(t, wrote, fmt.Sprintf("rank %d:", victim))
							require.ErrorContains(t, wrote, errInjected.Error(), "call %d", at)
						}
						var read error
						if wrote == nil {
							_, read = k.ck.Read(t.Context(), dir)
							if read != nil {
								require.ErrorContains(t, read, errInjected.Error(), "call %d", at)
							}
						}
						require.Equal(t, old, k.state(t))
						saved, err := k.checkpoint().Read(t.Context(), dir)
						require.NoError(t, err, "call %d: %v", at, wrote)
						require.Equal(t, old, k.state(t))
						if wrote == nil {
							require.Equal(t, 2, saved.Step)
						}
						return k.r.backward(k.d, inputs)
					})
					requireNothingKept(t, all)
					left, err := filepath.Glob(filepath.Join(dir, "*"))
					require.NoError(t, err)
					if len(left) > 3 { // what could not be removed
						require.GreaterOrEqual(t, n.calls.Load(), at)
					}
					if n.calls.Load() < at {
						return false
					}
					failed++
					return true
				})
				require.Greater(t, failed, 1)
			})
		}
	}
}

// Each collective that fails ends the group, with an error on both ranks; nothing hangs, and nothing is kept.
func TestCheckpoint_EveryCollectiveThatFails(t *testing.T) {
	for stage := range 4 {
		failed := 0
		for at := int64(1); ; at += int64(fulltests.Or(2, 7)) {
			n, dir := &nth{at: -1}, t.TempDir()
			all := ranks(t, 2)
			errs := together(all, func(r *rank) error {
				model := nn.Sequential(nn.Linear(inputs, 5), nn.Linear(5, 4))
				if err := model.To(r.dev, nn.Seed(1), nn.WithAllocator(r.alloc)); err != nil {
					return err
				}
				defer model.Release()
				if r.comm.Rank() == 1 {
					r.comm = broken(r.comm, n)
				}
				d, err := parallel.Data(model, r.comm, parallel.ZeRO(stage))
				if err != nil {
					return err
				}
				defer func() { _ = d.Close() }()
				opt := optim.AdamW(d.Parameters())
				defer opt.Release()
				if r.comm.Rank() == 1 {
					n.at = n.calls.Load() + at
				}
				ck := parallel.NewCheckpoint(d).Optimizer("optimizer", opt)
				err = ck.Write(t.Context(), dir, 1)
				if err == nil {
					_, err = ck.Read(t.Context(), dir)
				}
				return err
			})
			for i := range all {
				require.NoError(t, all[i].dev.Synchronize(t.Context()))
			}
			requireNothingKept(t, all)
			if n.calls.Load() < n.at {
				require.NoError(t, errors.Join(errs...))
				break
			}
			failed++
			require.ErrorIs(t, errs[1], errInjected)
			if errs[0] != nil {
				require.ErrorIs(t, errs[0], comm.ErrAborted)
			}
		}
		require.Greater(t, failed, 1)
	}
}

// stubborn is a section that cannot be set on one rank.
type stubborn struct {
	fails  bool
	undone int
}

func (s *stubborn) Save() (checkpoint.Content, error) { return checkpoint.Content{}, nil }

func (s *stubborn) Prepare(checkpoint.Content) (checkpoint.Change, error) {
	return checkpoint.Change{
		Apply: func() error {
			if s.fails {
				return errInjected
			}
			return nil
		},
		Undo: func() error { s.undone++; return nil },
	}, nil
}

// What cannot be set on one rank is put back on both.
func TestCheckpoint_PutsBackWhatOneRankCannotSet(t *testing.T) {
	for stage := range 4 {
		dir := t.TempDir()
		all := checkpointed(t, stage, dir, func(k *kept) error {
			s, step := &stubborn{}, k.r.comm.Rank()
			ck := parallel.NewCheckpoint(k.d).Optimizer("optimizer", k.opt).Add("before", checkpoint.Value(&step)).Add("stubborn", s)
			err := ck.Write(t.Context(), filepath.Join(dir, "other"), 1)
			if err != nil {
				return err
			}
			if err := errors.Join(k.r.backward(k.d, inputs), k.opt.Step()); err != nil {
				return err
			}
			k.opt.ZeroGrad()
			before := k.state(t)
			step, s.fails = 5, k.r.comm.Rank() == 1
			_, err = ck.Read(t.Context(), filepath.Join(dir, "other"))
			require.ErrorContains(t, err, "rank 1: ")
			require.ErrorContains(t, err, errInjected.Error())
			require.Equal(t, before, k.state(t))
			require.Equal(t, []int{5, 1}, []int{step, s.undone})
			return nil
		})
		requireNothingKept(t, all)
	}
}

// Each allocation that fails on a rank while it reads is the error of both, and nothing was changed.
func TestCheckpoint_EveryAllocationThatFails(t *testing.T) {
	for stage := range 4 {
		failed := 0
		for at := int64(1); ; at += int64(fulltests.Or(2, 9)) {
			n, dir := &nth{at: -1}, t.TempDir()
			all := ranks(t, 2)
			caching := []memory.Allocator{all[0].alloc, all[1].alloc}
			all[1].alloc = poor{all[1].alloc, n}
			for i, err := range together(all, func(r *rank) error {
				return withModel(r, even(), []parallel.Option{parallel.ZeRO(stage)}, func(d *parallel.DataParallel) error {
					k := &kept{r: r, d: d, model: d.Module().(nn.Layer), opt: optim.AdamW(d.Parameters())}
					defer k.opt.Release()
					k.ck = k.checkpoint()
					if err := errors.Join(r.backward(d, 64), k.opt.Step(), k.ck.Write(t.Context(), dir, 1)); err != nil {
						return err
					}
					k.opt.ZeroGrad()
					before := k.state(t)
					if r.comm.Rank() == 1 {
						n.at = n.calls.Load() + at
					}
					_, err := k.ck.Read(t.Context(), dir)
					reached := err != nil
					if reached && !errors.Is(err, comm.ErrAborted) && d.Comm() != nil {
						var failed *parallel.CheckpointError
						if errors.As(err, &failed) {
							require.Equal(t, before, k.state(t))
						}
					}
					return err
				})
			}) {
				if n.calls.Load() < n.at {
					require.NoError(t, err)
				} else {
					require.Error(t, err, "rank %d, call %d", i, at)
					require.ErrorContains(t, err, errInjected.Error())
				}
			}
			for i := range all {
				require.NoError(t, all[i].dev.Synchronize(t.Context()))
				require.Zero(t, caching[i].Stats().AllocatedBytes.All.Current, "call %d", at)
			}
			if n.calls.Load() < n.at {
				break
			}
			failed++
		}
		require.Greater(t, failed, 1)
	}
}
