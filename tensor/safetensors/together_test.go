package safetensors_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
	"github.com/cistern-ml/cistern/tensor/safetensors"
)

// Several goroutines read while the file is closed: each has the values, or is told that the file is closed.
func TestRead_BySeveralGoroutines_IsWholeOrClosed(t *testing.T) {
	e, _ := rig(t)
	path := filepath.Join(t.TempDir(), "x")
	data := make([]float32, 1000)
	for i := range data {
		data[i] = float32(i)
	}
	require.NoError(t, safetensors.WriteFile(background, path, []safetensors.Entry{{Name: "x", Tensor: made(t, e, data, 1000)}}, nil))
	f := opened(t, path)
	var all sync.WaitGroup
	started := make(chan struct{}, 8)
	for range cap(started) {
		all.Go(func() {
			for i := 0; ; i++ {
				v, err := f.Read(e, "x")
				if i == 0 {
					started <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, safetensors.ErrClosed) {
						t.Error(err)
					}
					return
				}
				got, err := tensor.ToSlice[float32](v)
				v.Release()
				if err != nil || got[999] != 999 {
					t.Error(err, got[999])
					return
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	require.NoError(t, f.Close())
	all.Wait()
}
