package cuda

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/ptx"
)

// KeepImages unpacks the images of all modules and keeps them until the end of the test, which uses all of them in turn. Without it the
// collector takes each one between two of its kernels, and the next kernel unpacks it again.
func KeepImages(t *testing.T) {
	t.Helper()
	var kept []*ptx.Image
	for module := range modules {
		im, err := imageOf(module)
		require.NoError(t, err)
		kept = append(kept, im)
	}
	t.Cleanup(func() { runtime.KeepAlive(kept) })
}

// Tiles are the names of the tiles of products on tensor cores.
func Tiles() (names []string) {
	for _, t := range tiles {
		names = append(names, t.name)
	}
	return names
}

// PreferTile makes a tile so fast that it is taken wherever it can be, until the end of the test: one of Tiles, or float, that of
// float32.
func PreferTile(t *testing.T, name string) {
	t.Helper()
	was, float := tiles, floatTiling
	t.Cleanup(func() { tiles, floatTiling = was, float })
	if name == "float" {
		floatTiling.speed *= 1 << 20
	}
	for i := range tiles {
		if tiles[i].name == name {
			tiles[i].speed *= 1 << 20
		}
	}
}
