package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/internal/fakecuda"
	"github.com/cistern-ml/cistern/internal/ptx"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

// TestMain is the program itself for processes that are started as children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		main()
	}
	os.Exit(m.Run())
}

// put writes a module.
func put(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// folder has modules of the given names, which are no PTX.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		put(t, filepath.Join(dir, name+".ptx"), name)
	}
	return dir
}

// quiet are options for these modules.
func quiet(t *testing.T, ptx string) *options {
	t.Helper()
	return &options{ptx: ptx, cache: filepath.Join(t.TempDir(), "new"), parallel: 2, timeout: time.Minute, stderr: io.Discard}
}

func TestMeasure_LoadsEachModuleTwiceAndThenAllAtOnce(t *testing.T) {
	o := quiet(t, folder(t, "a", "b", "c"))
	o.json = filepath.Join(t.TempDir(), "load.json")
	var log bytes.Buffer
	o.stderr = &log
	var mu sync.Mutex
	times := map[string]float64{}
	r, err := o.measure(func(_ *options, files []string) (*started, error) {
		mu.Lock()
		defer mu.Unlock()
		s := &started{Name: "fast", Context: 7}
		for _, file := range files {
			times[file]++
			s.Modules = append(s.Modules, &module{Name: ptx.Module(file), Bytes: 2048, Count: 2, Kernels: []*kernel{
				{Name: "x", Ms: 7 / times[file], Registers: 40, Shared: 1, MaxThreads: 1024}, {Name: "y", Ms: 3 / times[file], Registers: 30, Local: 16},
			}})
		}
		return s, nil
	})
	require.NoError(t, err)
	require.True(t, r.Cold)
	require.Equal(t, "fast", r.Device)
	require.Len(t, r.Modules, 3)
	for i, m := range r.Modules {
		require.Equal(t, string(rune('a'+i)), m.Name)
		require.Equal(t, []float64{10, 7, 5}, []float64{m.First, m.Longest, m.Second})
		require.Equal(t, 2, m.Count)
	}
	require.InDelta(t, 10, r.OneProcess, 1e-9)
	require.InDelta(t, 7, r.Start, 1e-9)
	require.Empty(t, r.Failures)
	var out bytes.Buffer
	require.NoError(t, r.write(&out))
	require.Regexp(t, `all +6 +6 +6 +30.0 +7.0 +15.0 +40 +16 +3`, out.String())
	require.Contains(t, out.String(), "kernels with local memory:\n  a y: 16 bytes, 30 registers\n")
	require.NotContains(t, out.String(), "FAILED")
	require.Equal(t, 7, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "load: next 2/3 b: 2 of 2 kernels in 5.0 ms")

	text, err := os.ReadFile(o.json)
	require.NoError(t, err)
	var again report
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, r.Modules, again.Modules)
	require.Contains(t, string(text), `"registers": 40`)
	require.Contains(t, string(text), `"local": 16`)
}

func TestMeasure_SaysIfTheCacheWasNotEmpty(t *testing.T) {
	o := quiet(t, folder(t, "a"))
	o.cache = folder(t, "old")
	r, err := o.measure(func(*options, []string) (*started, error) { return &started{}, nil })
	require.NoError(t, err)
	require.False(t, r.Cold)
	var out bytes.Buffer
	r.Machine = machine.Facts{}
	require.NoError(t, r.write(&out))
	require.Contains(t, out.String(), "NOT EMPTY")
}

func TestMeasure_WithoutADeviceOrModulesIsAnError(t *testing.T) {
	wrong := errors.New("wrong")
	o := quiet(t, folder(t, "a", "b"))
	_, err := o.measure(func(*options, []string) (*started, error) { return &started{}, wrong })
	require.ErrorIs(t, err, wrong)
	o.ptx = t.TempDir()
	_, err = o.measure(nil)
	require.ErrorContains(t, err, "no modules")
}

// A kernel that fails, a process that crashes half way, and one that does not begin: each costs what it must, and is told once.
func TestMeasure_GoesOnAfterFailures(t *testing.T) {
	o := quiet(t, folder(t, "a", "b", "c", "d"))
	start := func(_ *options, files []string) (*started, error) {
		s := &started{Name: "shaky"}
		for _, file := range files {
			m := &module{Name: ptx.Module(file), Count: 4, Kernels: []*kernel{{Name: "x", Ms: 1}}}
			switch s.Modules = append(s.Modules, m); m.Name {
			case "b":
				m.Failures = []*failure{{Module: "b", Kernel: "y", Error: "ptxas says\nno"}}
			case "c":
				m.loading = "z"
				return s, errors.New("it crashed")
			case "d":
				return &started{}, errors.New("it did not begin")
			}
		}
		return s, nil
	}
	var out bytes.Buffer
	err := o.parent(start, &out)
	require.ErrorContains(t, err, "3 failures")
	for _, text := range []string{
		"FAILED: 3\n", "  b y, process first: ptxas says\n    no\n", "  c z, process first: it crashed; 3 kernels were not loaded\n",
		"  d (the module), process first: it did not begin\n",
	} {
		require.Contains(t, out.String(), text)
	}
	require.Regexp(t, `(?m)^ +a +0 +4 +1 +1\.0`, out.String())
	r, err := o.measure(start)
	require.NoError(t, err)
	require.Len(t, r.Modules, 4)
	require.Len(t, r.Failures, 3)
}

// script is a program that is started in the place of this one.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700))
	return file
}

const begun = `echo '{"device": "d", "start": 3}'
echo '{"module": "m", "bytes": 5, "count": 3}'
echo '{"loading": "k"}'
echo '{"kernel": {"name": "k", "ms": 2}}'
echo '{"loading": "l"}'
`

func TestStart_KeepsWhatAProcessSaidBeforeItEndedBadly(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("there is no /bin/sh")
	}
	o := quiet(t, "")
	for end, want := range map[string]string{
		"echo wrong >&2; exit 3":                  "exit status 3: wrong",
		"kill -SEGV $$":                           "segmentation fault",
		"printf '{\"kern'; exit 4":                "exit status 4",
		"exec sleep 600":                          "ended after 200ms",
		"(sleep 600 & echo $! >&2; wait); exit 0": "ended after 200ms",
	} {
		o.timeout = time.Minute
		if strings.Contains(end, "sleep") {
			o.timeout = 200 * time.Millisecond
		}
		s, err := o.start(script(t, begun+end), []string{"m.ptx.lzma"})
		require.ErrorContains(t, err, want, end)
		require.Equal(t, "d", s.Name)
		require.Len(t, s.Modules, 1, end)
		require.Equal(t, "l", s.Modules[0].loading)
		require.Equal(t, 3, s.Modules[0].Count)
		require.Equal(t, []*kernel{{Name: "k", Ms: 2}}, s.Modules[0].Kernels)
	}
}

// children runs child on the emulated driver and reads what it writes.
func children(t *testing.T, faults func(*fakecuda.Library), files ...string) (*started, error) {
	t.Helper()
	dev, rig := emulatedtest.NewPTX(t)
	require.NoError(t, touch(dev))
	faults(rig.Library)
	var out bytes.Buffer
	c := &child{dev: dev, out: json.NewEncoder(&out)}
	var err error
	for _, file := range files {
		err = errors.Join(err, c.add(file))
	}
	return read(&out), err
}

const softmax = "../../kernels/cuda/ptx/softmax.ptx.lzma"

func TestChild_LoadsTheKernelsOfTheModule(t *testing.T) {
	s, err := children(t, func(*fakecuda.Library) {}, softmax, "none.ptx.lzma")
	require.NoError(t, err)
	require.Len(t, s.Modules, 2)
	m := s.Modules[0]
	require.Equal(t, "softmax", m.Name)
	require.Empty(t, m.Failures)
	require.Greater(t, m.Bytes, 1000)
	require.Len(t, m.Kernels, m.Count)
	require.Greater(t, m.Count, 10)
	all, longest := m.ms()
	require.Less(t, longest, all)
	for _, k := range m.Kernels {
		require.Positive(t, k.Ms)
		require.Equal(t, 32, k.Registers)
		require.Zero(t, k.Local)
		require.Positive(t, k.MaxThreads)
	}
	require.Len(t, s.Modules[1].Failures, 1, "there is none")
	require.Empty(t, s.Modules[1].Failures[0].Kernel)
}

// Each of the three calls can be the one that fails.
func TestChild_GoesOnAfterAKernelThatFails(t *testing.T) {
	for _, call := range []string{"cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetAttribute"} {
		t.Run(call, func(t *testing.T) {
			s, err := children(t, func(l *fakecuda.Library) { l.Fail(call, 1, 218) }, softmax)
			require.NoError(t, err)
			m := s.Modules[0]
			require.Len(t, m.Failures, 1)
			require.NotEmpty(t, m.Failures[0].Kernel)
			require.Contains(t, m.Failures[0].Error, call+": CUDA_ERROR_INVALID_PTX (218)")
			require.Len(t, m.Kernels, m.Count-1)
		})
	}
}

func TestChild_EndsAModuleWhenNothingMoreCanLoad(t *testing.T) {
	s, err := children(t, func(l *fakecuda.Library) { l.Fail("cuModuleLoadDataEx", 0, 221) }, softmax)
	require.NoError(t, err)
	require.Empty(t, s.Modules[0].Kernels)
	require.Len(t, s.Modules[0].Failures, 1)
	require.Contains(t, s.Modules[0].Failures[0].Error, "kernels were not tried")
}

// The whole program, in processes: the driver refuses the third load of each.
func TestRun_ListsFailuresAndExitsWith1(t *testing.T) {
	dir := t.TempDir()
	text, err := ptx.ReadFile(softmax)
	require.NoError(t, err)
	put(t, filepath.Join(dir, "softmax.ptx"), string(text))
	put(t, filepath.Join(dir, "broken.ptx"), ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry broken( { }\n")
	t.Setenv("CISTERN_CUDA_LIBRARY", fakecuda.Build(t))
	t.Setenv("FAKECUDA_FAIL", "cuModuleLoadDataEx:3:218")
	file := filepath.Join(t.TempDir(), "load.json")
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-cache", t.TempDir(), "-ptx", dir, "-json", file, "-parallel", "2"}, &out, &errs), errs.String())
	require.Contains(t, out.String(), "FAILED: ")
	require.Regexp(t, `softmax \w+, process first: .*CUDA_ERROR_INVALID_PTX \(218\)`, out.String())
	require.Contains(t, errs.String(), "failures, listed above")
	require.Contains(t, errs.String(), "FAILED: softmax")
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(written, &r))
	require.Len(t, r.Modules, 2)
	require.Equal(t, "softmax", r.Modules[1].Name)
	require.Len(t, r.Modules[1].Kernels, r.Modules[1].Count-1)
	modules := map[string]int{}
	for _, f := range r.Failures {
		modules[f.Module]++
	}
	require.Positive(t, modules["broken"])
	require.GreaterOrEqual(t, modules["softmax"], 1)
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"-cache", "x", "file"}, {"-cache", "x", "-parallel", "0"}, {"-cache", "x", "-timeout", "0s"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
		require.Contains(t, errs.String(), "load:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-child", "-device", "cuda:99", "file"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
