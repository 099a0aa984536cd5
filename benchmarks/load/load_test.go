package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/machine"
	"github.com/cistern-ml/cistern/kernels/cuda/emulatedtest"
)

// folder has modules of the given names, which are no PTX.
func folder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(name))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".ptx.gz"), b.Bytes(), 0o600))
	}
	return dir
}

func TestMeasure_LoadsEachModuleTwiceAndThenAllAtOnce(t *testing.T) {
	o := options{ptx: folder(t, "a", "b", "c"), cache: filepath.Join(t.TempDir(), "new"), parallel: 2}
	var mu sync.Mutex
	times := map[string]float64{}
	r, err := o.measure(func(_ *options, files []string) (*started, error) {
		mu.Lock()
		defer mu.Unlock()
		s := &started{Name: "fast", Context: 7}
		for _, file := range files {
			times[file]++
			s.Modules = append(s.Modules, &module{Name: filepath.Base(file)[:1], Bytes: 2048, Kernels: 4, Ms: 10 / times[file], Longest: 3})
		}
		return s, nil
	})
	require.NoError(t, err)
	require.True(t, r.Cold)
	require.Equal(t, "fast", r.Device)
	require.Len(t, r.Modules, 3)
	for i, m := range r.Modules {
		require.Equal(t, row{Name: string(rune('a' + i)), Bytes: 2048, Kernels: 4, First: 10, Longest: 3, Second: 5}, *m)
	}
	require.InDelta(t, 10, r.OneProcess, 1e-9)
	require.InDelta(t, 7, r.Start, 1e-9)
	file := filepath.Join(t.TempDir(), "load.json")
	var out bytes.Buffer
	require.NoError(t, r.write(&out, file))
	require.Regexp(t, `all +6 +12 +30.0 +3.0 +15.0`, out.String())
	var again report
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, *r, again)
}

func TestMeasure_SaysIfTheCacheWasNotEmpty(t *testing.T) {
	cache := folder(t, "old")
	o := options{ptx: folder(t, "a"), cache: cache, parallel: 1}
	r, err := o.measure(func(*options, []string) (*started, error) { return &started{Modules: []*module{{Name: "a"}}}, nil })
	require.NoError(t, err)
	require.False(t, r.Cold)
	var out bytes.Buffer
	r.Machine = machine.Facts{}
	require.NoError(t, r.write(&out, ""))
	require.Contains(t, out.String(), "NOT EMPTY")
}

func TestMeasure_ReturnsWhatAProcessSays(t *testing.T) {
	wrong := errors.New("wrong")
	o := options{ptx: folder(t, "a", "b"), cache: t.TempDir(), parallel: 1}
	_, err := o.measure(func(*options, []string) (*started, error) { return nil, wrong })
	require.ErrorIs(t, err, wrong)
	o.ptx = t.TempDir()
	_, err = o.measure(nil)
	require.ErrorContains(t, err, "no modules")
}

func TestAdd_LoadsTheKernelsOfTheModule(t *testing.T) {
	dev, _ := emulatedtest.NewPTX(t)
	s := &started{}
	require.NoError(t, touch(dev))
	require.NoError(t, s.add(dev, "../../kernels/cuda/ptx/softmax.ptx.gz"))
	require.Len(t, s.Modules, 1)
	require.Equal(t, "softmax", s.Modules[0].Name)
	require.Greater(t, s.Modules[0].Bytes, 1000)
	require.Positive(t, s.Modules[0].Ms)
	require.Greater(t, s.Modules[0].Kernels, 10)
	require.Less(t, s.Modules[0].Longest, s.Modules[0].Ms)
	require.Error(t, s.add(dev, "load_test.go"), "not packed")
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"-cache", "x", "file"}, {"-cache", "x", "-parallel", "0"}, {"-child"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
		require.Contains(t, errs.String(), "load:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-child", "-device", "cuda:99", "file"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
