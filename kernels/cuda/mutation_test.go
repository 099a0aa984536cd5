package cuda_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
)

// mutationVariable is the environment variable that lets the mutation check run when it is "1": it takes minutes. Names of sources, with commas
// between them, let it run for their barriers alone; others' lines of barriers.md stay as they are.
const mutationVariable = "CISTERN_MUTATION"

var writeBarriers = flag.Bool("write-barriers", false, "write barriers.md after the mutation check")

// schedule is one of the emulator's two, with one in how many cases runs under it: more than in TestConformance.
type schedule struct {
	greedy bool
	every  int
}

var schedules = []schedule{{false, 7}, {true, 23}}

// user is an operation on a type, and what reaches is its cases that come to a barrier, by schedule.
type user struct {
	id op.ID
	d  dtype.DType
}

func (u user) String() string { return fmt.Sprintf("%s of %s", u.id, u.d) }

type reaches map[fakecuda.Barrier]map[schedule]map[user][]int

// Each barrier of each kernel is taken out, and a case of kerneltest must then fail under one of the schedules. A barrier that
// is not missed is not needed, or lacks a case. Barriers of sources that no case comes to fail, too.
func TestMutation_EachBarrierOfEachKernelIsMissed(t *testing.T) {
	which := os.Getenv(mutationVariable)
	if which == "" {
		t.Skipf("SKIPPED: %s=1 lets the mutation check run", mutationVariable)
	}
	chosen := func(file string) bool { return which == "1" || slices.Contains(strings.Split(which, ","), file) }
	library := emulatedtest.Library(t)
	barriers := fakecuda.WatchBarriers(t, library)
	found := watch(t, barriers)
	maps.DeleteFunc(found, func(b fakecuda.Barrier, _ map[schedule]map[user][]int) bool { return !chosen(b.File) })
	for at, text := range barriersOf(t) {
		if !chosen(at.file) {
			continue
		}
		reached := slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(b fakecuda.Barrier) bool { return at.is(b) })
		assert.True(t, reached, "no case of kerneltest comes to %s:%d: %s", at.file, at.line, text)
	}
	table := map[fakecuda.Barrier]caught{}
	for _, b := range slices.SortedFunc(maps.Keys(found), compareBarriers) {
		t.Run(b.String(), func(t *testing.T) {
			by, ok := miss(t, barriers, b, found[b])
			require.True(t, ok, "all cases pass without the barrier in %s", b)
			table[b] = by
		})
	}
	if *writeBarriers && !t.Failed() {
		committed, err := os.ReadFile("barriers.md")
		require.NoError(t, err)
		others := slices.DeleteFunc(strings.Split(string(committed), "\n"), func(line string) bool {
			file, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), ":")
			return !ok || !strings.Contains(file, ".") || chosen(file)
		})
		require.NoError(t, os.WriteFile("barriers.md", []byte(barrierTable(table, barriersOf(t), others)), 0o644))
	}
}

func compareBarriers(a, b fakecuda.Barrier) int {
	if c := strings.Compare(a.File, b.File); c != 0 {
		return c
	}
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return strings.Compare(a.Kernel, b.Kernel)
}

// scheduled is a device of the emulated driver under a schedule.
func scheduled(t *testing.T, s schedule) device.Device {
	d, r := onSource(t)
	r.Greedy(s.greedy)
	return d
}

// watch runs the suite and learns which cases come to which barriers.
func watch(t *testing.T, barriers *fakecuda.Barriers) reaches {
	found := reaches{}
	for _, s := range schedules {
		t.Run(fmt.Sprintf("watch, greedy %t", s.greedy), func(t *testing.T) {
			dev := scheduled(t, s)
			for id := op.Invalid + 1; id.Valid(); id++ {
				for _, d := range id.Types() {
					if _, ok := kernels.Lookup(device.CUDA, id, d); ok {
						found.add(t, dev, barriers, s, user{id, d})
					}
				}
			}
		})
	}
	return found
}

func (r reaches) add(t *testing.T, dev device.Device, barriers *fakecuda.Barriers, s schedule, u user) {
	err := kerneltest.Each(dev, u.id, u.d, func(number int, run func() error) error {
		barriers.Forget()
		if err := run(); err != nil {
			return err
		}
		for _, b := range barriers.Reached() {
			if r[b] == nil {
				r[b] = map[schedule]map[user][]int{}
			}
			if r[b][s] == nil {
				r[b][s] = map[user][]int{}
			}
			r[b][s][u] = append(r[b][s][u], number)
		}
		return nil
	}, kerneltest.Every(s.every))
	require.NoError(t, err, "%s, before any barrier was taken out", u)
}

// caught says what missed a barrier.
type caught struct {
	schedule schedule
	user     user
}

var errNone = errors.New("not one of the cases")

// miss runs the cases that come to a barrier without it, until one fails.
func miss(t *testing.T, barriers *fakecuda.Barriers, b fakecuda.Barrier, cases map[schedule]map[user][]int) (by caught, ok bool) {
	for _, s := range schedules {
		t.Run(fmt.Sprintf("greedy %t", s.greedy), func(t *testing.T) {
			if ok || len(cases[s]) == 0 {
				return
			}
			dev := scheduled(t, s)
			barriers.Forget()
			barriers.Remove(b)
			for _, u := range slices.SortedFunc(maps.Keys(cases[s]), func(a, b user) int { return strings.Compare(a.String(), b.String()) }) {
				if fails(dev, u, cases[s][u], s.every) {
					by, ok = caught{s, u}, true
					return
				}
			}
		})
	}
	barriers.Forget()
	return by, ok
}

// fails reports whether one of the numbered cases does.
func fails(dev device.Device, u user, numbers []int, every int) bool {
	err := kerneltest.Each(dev, u.id, u.d, func(number int, run func() error) error {
		if number > numbers[len(numbers)-1] {
			return errNone
		}
		if !slices.Contains(numbers, number) {
			return nil
		}
		return run()
	}, kerneltest.Every(every))
	return err != nil && !errors.Is(err, errNone)
}
