package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_MeasuresEveryProblemOnTheHost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gemm.json")
	var out, errs bytes.Buffer
	code := run([]string{"-device", "host", "-sizes", "16,24", "-types", "float32,bfloat16", "-runs", "3", "-duration", "100us", "-json", file}, &out, &errs)
	require.Zero(t, code, errs.String())
	var r report
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	require.Len(t, r.Results, 2*2*len(problems(1)))
	for _, c := range r.Results {
		require.Positive(t, c.Microseconds)
		require.LessOrEqual(t, c.Fastest, c.Microseconds)
		require.GreaterOrEqual(t, c.Slowest, c.Microseconds)
		require.InEpsilon(t, 2*float64(c.M)*float64(c.N)*float64(c.K)/c.Microseconds/1e6, c.TFLOPS, 1e-9)
		require.Contains(t, out.String(), c.Problem)
	}
}

func TestRun_RefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{{"-sizes", "0"}, {"-sizes", "x"}, {"-types", "int32"}, {"-types", "float17"}, {"-runs", "0"}, {"file"}} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs), args)
		require.Contains(t, errs.String(), "gemm:")
	}
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-device", "cuda:99"}, &out, &errs))
	require.Zero(t, run([]string{"-h"}, &out, &errs))
}
