package replay

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/trace"
	"github.com/cistern-ml/cistern/memory"
)

func TestAll(t *testing.T) {
	dir := os.Getenv("TRACES")
	files, _ := filepath.Glob(dir + "/expected/*.json.gz")
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			e, err := OpenExpected(f)
			require.NoError(t, err)
			tr, err := trace.Open(filepath.Join(dir, e.Trace))
			require.NoError(t, err)
			c, err := memory.ParseConfig(e.Config.AllocConf)
			require.NoError(t, err)
			r, err := Run(tr, Options{Capacity: e.Config.Capacity, Config: c, Fraction: e.Config.Fraction})
			require.NoError(t, err)
			d, err := e.Differences(r)
			require.NoError(t, err)
			if len(d) > 0 {
				if len(d) > 6 {
					d = d[:6]
				}
				t.Error(d)
			}
		})
	}
}
