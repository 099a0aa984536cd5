package checkpoint_test

import (
	"bytes"
	"context"
	"io"
	"os"
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
