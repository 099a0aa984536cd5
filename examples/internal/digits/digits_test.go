package digits

import (
	"errors"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
)

func TestLoad_SmallerImagesHaveTheSameInk(t *testing.T) {
	whole, _, err := Load("", 1)
	require.NoError(t, err)
	half, test, err := Load("", 2)
	require.NoError(t, err)
	require.Equal(t, 28, whole.Side)
	require.Equal(t, 14, half.Side)
	require.Equal(t, 2000, test.Len())
	for i := range 20 {
		require.Equal(t, whole.Labels[i], half.Labels[i])
		require.InDelta(t, mean(whole.Image(i)), mean(half.Image(i)), 1e-5)
		require.InDelta(t, (whole.Image(i)[28*14+14]+whole.Image(i)[28*14+15]+whole.Image(i)[28*15+14]+whole.Image(i)[28*15+15])/4,
			half.Image(i)[7*14+7], 1e-6)
	}
	_, _, err = Load("", 3)
	require.ErrorContains(t, err, "28x28")
}

func mean(v []float32) (m float64) {
	for _, x := range v {
		m += float64(x) / float64(len(v))
	}
	return m
}

func TestJudge_RealDigitsAreNearAndOthersFar(t *testing.T) {
	train, test, err := Load("", 2)
	require.NoError(t, err)
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	j, err := NewJudge(dev, train, test, 1, func() error { return nil })
	require.NoError(t, err)
	defer j.Release()
	r := rand.New(rand.NewPCG(1, 1))
	distance := func(pixels []float32) float64 {
		d, err := j.Distance(pixels)
		require.NoError(t, err)
		return d
	}
	require.InDelta(t, 0, distance(test.Pixels), 1e-6)
	real := distance(train.Draw(r, 1000))
	noise := make([]float32, 1000*test.Side*test.Side)
	for i := range noise {
		noise[i] = 2*r.Float32() - 1
	}
	one := []float32{}
	for range 1000 {
		one = append(one, test.Image(0)...)
	}
	require.Less(t, real, 0.1)
	require.Greater(t, distance(noise), 3.0)
	require.Greater(t, distance(one), 3.0, "one digit over and over")
}

// Training the classifier takes longest: whoever presses Ctrl-C then does not wait for its end.
func TestJudge_EndsBeforeTheNextBatch(t *testing.T) {
	train, test, err := Load("", 2)
	require.NoError(t, err)
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	left, stop := 0, errors.New("stop")
	check := func() error {
		if left--; left < 0 {
			return stop
		}
		return nil
	}
	for _, left = range []int{0, 1, 3 * 80} { // before the first batch, in training, and where it looks at real images
		_, err := NewJudge(dev, train, test, 1, check)
		require.ErrorIs(t, err, stop)
		require.Equal(t, -1, left, "it does not go on")
	}
	left = math.MaxInt
	j, err := NewJudge(dev, train, test, 1, check)
	require.NoError(t, err)
	left = 0
	_, err = j.Distance(test.Pixels)
	require.ErrorIs(t, err, stop)
	j.Release()
	alloc, err := memory.For(dev)
	require.NoError(t, err)
	require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
}

func TestDistances_NameThoseThatThereAreNot(t *testing.T) {
	require.Equal(t, "2.500 at first, 1.250 at last, 0.100 of real ones", Distances(2.5, 1.25, 0.1))
	require.Equal(t, "2.500 at first, none at last, 0.100 of real ones: interrupted", Distances(2.5, 0, 0.1))
}

func TestMoments_DistanceIsThatOfNormalDistributions(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	a := &moments{mean: []float64{1, 2}, covariance: []float64{4, 0, 0, 9}}
	b := &moments{mean: []float64{0, 4}, covariance: []float64{1, 0, 0, 16}}
	d, err := a.distance(dev, b)
	require.NoError(t, err)
	require.InDelta(t, 1+4+(2-1)*(2-1)+(3-4)*(3-4), d, 1e-9) // diagonal covariances: squares of differences of deviations
	m := newMoments(2)
	m.add([]float64{1, 2, 3, 6})
	m.finish()
	require.Equal(t, []float64{2, 4}, m.mean)
	require.Equal(t, []float64{1, 2, 2, 4}, m.covariance)
}

func TestText_HasInkWhereTheImageHas(t *testing.T) {
	image := make([]float32, 14*14)
	for i := range image {
		image[i] = -1
	}
	image[0], image[14] = 1, 1
	image[13], image[27] = 0, float32(math.NaN())
	var b strings.Builder
	require.NoError(t, Text(&b, append(image, image...), 14, 2))
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, "@            : @            :", lines[0])
	require.Equal(t, "", lines[1])
	require.Len(t, lines, high+1)
}

func TestWritePNG_PutsImagesInRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "images.png")
	pixels := make([]float32, 12*4)
	pixels[11*4+3] = 1
	require.NoError(t, WritePNG(file, pixels, 2))
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	image, err := png.Decode(f)
	require.NoError(t, err)
	require.Equal(t, 30, image.Bounds().Dx())
	require.Equal(t, 6, image.Bounds().Dy())
	white, _, _, _ := image.At(4, 4).RGBA()
	require.EqualValues(t, 0xffff, white)
	require.NoError(t, WritePNG("", pixels, 2))
}
