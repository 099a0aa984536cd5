package plotfile

import (
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
)

func TestSave_WritesWhatDrawableSays(t *testing.T) {
	p := plot.New()
	p.Title.Text = "the title"
	dir := t.TempDir()
	for name, drawable := range map[string]bool{"a.svg": true, "b.PNG": true, "c.gif": false, "svg": false, "": false} {
		require.Equal(t, drawable, Drawable(name), name)
		file := filepath.Join(dir, name)
		if !drawable {
			require.Error(t, Save(file, p, 8, 6), name)
			continue
		}
		require.NoError(t, Save(file, p, 8, 6), name)
	}
	text, err := os.ReadFile(filepath.Join(dir, "a.svg"))
	require.NoError(t, err)
	require.Contains(t, string(text), ">the title<")
	f, err := os.Open(filepath.Join(dir, "b.PNG"))
	require.NoError(t, err)
	defer f.Close()
	image, err := png.Decode(f)
	require.NoError(t, err)
	require.InDelta(t, 8.0/6, float64(image.Bounds().Dx())/float64(image.Bounds().Dy()), 0.01)
}
