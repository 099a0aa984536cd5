package tensor_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestWatchChanges_RemembersTheStackOfTheLastChange(t *testing.T) {
	b := onHost(t)
	x, err := tensor.Zeros(b.Exec, tensor.Float32, 2, 2)
	require.NoError(t, err)
	defer x.Release()
	require.NoError(t, x.FillInPlace(1))
	require.Nil(t, x.LastChange(), "nobody asked")
	row, err := x.Select(0, 1)
	require.NoError(t, err)
	defer row.Release()
	row.WatchChanges()
	require.Empty(t, x.LastChange())
	_, _, line, _ := runtime.Caller(0)
	require.NoError(t, x.FillInPlace(2))
	found := false
	frames := runtime.CallersFrames(row.LastChange())
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		found = found || strings.HasSuffix(f.File, "watch_test.go") && f.Line == line+1
	}
	require.True(t, found, "the storage is the same, through whatever view")

	var none *tensor.Tensor
	none.WatchChanges()
	require.Nil(t, none.LastChange())
}
