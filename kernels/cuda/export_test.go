package cuda

import "testing"

// Tiles are the names of the tiles of products on tensor cores.
func Tiles() (names []string) {
	for _, t := range tiles {
		names = append(names, t.name)
	}
	return names
}

// PreferTile makes a tile so fast that it is taken wherever it can be, until the end of the test.
func PreferTile(t *testing.T, name string) {
	t.Helper()
	was := tiles
	t.Cleanup(func() { tiles = was })
	for i := range tiles {
		if tiles[i].name == name {
			tiles[i].speed *= 1 << 20
		}
	}
}
