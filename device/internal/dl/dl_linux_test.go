package dl

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The reason why a library cannot be opened is kept by thread: whoever asks for it on another one hears nothing, or another's.
func TestOpen_AlwaysSaysWhyNot(t *testing.T) {
	var wg sync.WaitGroup
	errs := make([]string, 32)
	for i := range errs {
		wg.Go(func() {
			for range 200 {
				_, err := Open("libnone.so.1")
				if errs[i] = err.Error(); errs[i] == "" {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, text := range errs {
		require.Contains(t, text, "libnone.so.1")
	}
}
