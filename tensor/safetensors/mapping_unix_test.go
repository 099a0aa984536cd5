//go:build unix

package safetensors_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor/safetensors"
)

func TestRead_OfAFileThatIsCutShortMeanwhile_IsAnError(t *testing.T) {
	e, alloc := rig(t)
	path := filepath.Join(t.TempDir(), "x")
	big := made(t, e, make([]float32, 1<<16), 1<<16)
	require.NoError(t, safetensors.WriteFile(background, path, []safetensors.Entry{{Name: "x", Tensor: big}}, nil))
	f := opened(t, path)
	require.NoError(t, f.Verify(background))
	require.NoError(t, os.Truncate(path, 100))
	held := allocated(alloc)
	_, err := f.Read(e, "x")
	require.ErrorContains(t, err, "cut short")
	require.Equal(t, held, allocated(alloc))
	_, err = safetensors.Open(path)
	require.ErrorContains(t, err, "ends")
}

func TestOpen_OfAFileThatIsReplaced_StaysWithTheOldOne(t *testing.T) {
	e, _ := rig(t)
	path := filepath.Join(t.TempDir(), "x")
	write := func(v float32) {
		require.NoError(t, safetensors.WriteFile(background, path, []safetensors.Entry{{Name: "x", Tensor: made(t, e, []float32{v}, 1)}}, nil))
	}
	write(1)
	f := opened(t, path)
	write(2)
	v, err := f.Read(e, "x")
	require.Equal(t, []float64{1}, values(t, v, err))
	v, err = opened(t, path).Read(e, "x")
	require.Equal(t, []float64{2}, values(t, v, err))
}
