package nn_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
)

func TestLoad_NamesAFileThatCannotBeReadOnce(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 3))
	r.place(m)
	path := filepath.Join(t.TempDir(), "model.safetensors")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	err = nn.Load(f, m)
	require.EqualError(t, err, "nn: Load: "+path+": reading the length of the header: read: file already closed")
	require.ErrorIs(t, err, fs.ErrClosed)
}
