package cuda

import "testing"

// Tiles are the names of the tiles of products on tensor cores.
func Tiles() (names []string) {
	for _, t := range tiles {
		names = append(names, t.name)
	}
	return names
}

// PreferTile makes a tile so fast that it is taken wherever it can be, until the end of the test: one of Tiles; float, that of
// float32; or strip.
func PreferTile(t *testing.T, name string) {
	t.Helper()
	was, float, strip := tiles, floatTiling, stripTiling
	t.Cleanup(func() { tiles, floatTiling, stripTiling = was, float, strip })
	switch name {
	case "float":
		floatTiling.speed *= 1 << 20
	case "strip":
		stripTiling.speed *= 1 << 20
	}
	for i := range tiles {
		if tiles[i].name == name {
			tiles[i].speed *= 1 << 20
		}
	}
}
