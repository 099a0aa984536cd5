//go:build unix

package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
)

// pipe makes a named pipe.
func pipe(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return path
}

// A pipe that nobody writes to, and one whose writer says nothing, are waited for as long as the context says.
func TestReadFile_OfAPipeEndsWithItsContext(t *testing.T) {
	ended := errors.New("the test has seen enough")
	for _, written := range []bool{false, true} {
		path := pipe(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		result := make(chan error)
		step := 7
		go func() { result <- checkpoint.New().Add("step", checkpoint.Value(&step)).ReadFile(ctx, path) }()
		if written {
			w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when the reader is there
			require.NoError(t, err)
			defer w.Close()
		}
		cancel(ended)
		err := <-result
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, path)
		require.Equal(t, 7, step)
		if !written { // lets the goroutine go that opens the pipe
			w, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		}
	}
}

func TestReadFile_OfAPipeReadsWhatIsWritten(t *testing.T) {
	step, path := 7, pipe(t)
	c := checkpoint.New().Add("step", checkpoint.Value(&step))
	var file bytes.Buffer
	require.NoError(t, c.Write(context.Background(), &file))
	go func() { _ = os.WriteFile(path, file.Bytes(), 0) }()
	step = 0
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, c.ReadFile(ctx, path))
	require.Equal(t, 7, step)
}
