package cuda

import "testing"

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
