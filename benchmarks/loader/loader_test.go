package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

func TestRun_EveryWaySeesTheSameBatches(t *testing.T) {
	for _, format := range []string{"png", "jpeg"} {
		file := filepath.Join(t.TempDir(), "loader.json")
		var out, errs bytes.Buffer
		require.Zero(t, run([]string{"-device", "host", "-format", format, "-images", "23", "-size", "16", "-batch", "5", "-workers", "1,3", "-runs", "2",
			"-json", file}, &out, &errs), errs.String())
		var r report
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &r))
		require.Len(t, r.Results, 11)
		require.Positive(t, r.Bytes)
		for _, x := range r.Results {
			require.Positive(t, x.Microseconds)
			require.Contains(t, out.String(), x.Way)
			if x.Loss != nil {
				require.Equal(t, *r.Results[0].Loss, *x.Loss)
			}
		}
		require.Nil(t, r.Results[8].Loss)
		require.Equal(t, "training", r.Results[10].Way)
	}
}

// A step that fails ends the epoch, and all goroutines and memory with it.
func TestWays_EndWithTheFirstError(t *testing.T) {
	dev := host.New()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	f, err := newFiles("png", 40, 16)
	require.NoError(t, err)
	o := options{batch: 2, counts: []int{2}}
	ways, wrong := o.ways(e, f), errors.New("wrong")
	for _, w := range ways {
		steps := 0
		require.ErrorIs(t, w.feed(func(x, y *tensor.Tensor) error {
			require.Equal(t, []int{2, 3, 8, 8}, []int(x.Shape()))
			require.Equal(t, []int{2}, []int(y.Shape()))
			steps++
			return wrong
		}), wrong, w.name)
		require.Equal(t, 1, steps)
	}
	require.NoError(t, finish(ways))
	require.NoError(t, memory.Drop(dev))
	require.NoError(t, dev.Close())
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-images", "0"}, {"-batch", "0"}, {"-runs", "0"}, {"-size", "12"}, {"-size", "0"}, {"-format", "gif"}, {"-workers", "0"},
		{"-workers", "x"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), "%v", args)
		require.Contains(t, errs.String(), "loader:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
