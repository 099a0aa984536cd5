package checkpoint_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

// os.Open returns a nil *os.File beside its error, which is no nil io.Reader.
func TestReadAndWrite_OfNoFile_AreArgumentErrors(t *testing.T) {
	c := checkpoint.New().Add("step", checkpoint.Value(new(int)))
	var bad *checkpoint.ArgumentError
	for _, f := range []io.ReadWriter{nil, (*os.File)(nil), (*bytes.Buffer)(nil)} {
		require.ErrorAs(t, c.Read(context.Background(), f), &bad)
		require.Equal(t, "Read", bad.Call)
		require.ErrorAs(t, c.Write(context.Background(), f), &bad)
		require.Equal(t, "Write", bad.Call)
	}
	require.EqualError(t, c.Read(context.Background(), (*os.File)(nil)), "checkpoint: Read: the reader is a nil *os.File")
	require.EqualError(t, c.Write(context.Background(), nil), "checkpoint: Write: the writer is nil")
}

func TestNil_ContextsAndCheckpoints_AreArgumentErrors(t *testing.T) {
	var none *checkpoint.Checkpoint
	there := checkpoint.New().Add("step", checkpoint.Value(new(int)))
	path := filepath.Join(t.TempDir(), "x")
	calls := func(ctx context.Context, c *checkpoint.Checkpoint) map[string]error {
		return map[string]error{
			"Read": c.Read(ctx, new(bytes.Buffer)), "Write": c.Write(ctx, new(bytes.Buffer)),
			"ReadFile": c.ReadFile(ctx, path), "WriteFile": c.WriteFile(ctx, path),
		}
	}
	var bad *checkpoint.ArgumentError
	for call, err := range calls(nil, there) {
		require.EqualError(t, err, "checkpoint: "+call+": the context is nil: give context.Background()")
		require.ErrorAs(t, err, &bad)
	}
	for call, err := range calls(context.Background(), none) {
		require.EqualError(t, err, "checkpoint: "+call+": the checkpoint is nil: make one with New")
		require.ErrorAs(t, err, &bad)
	}
	require.NoFileExists(t, path)
	require.ErrorAs(t, none.Add("step", checkpoint.Value(new(int))).WriteFile(context.Background(), path), &bad)
}
