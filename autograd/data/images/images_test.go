package images_test

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/autograd/data/images"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// pattern is the image of that name in testdata/resize.py.
func pattern(t *testing.T, c, h, w int) data.Array {
	t.Helper()
	p := make([]uint8, c*h*w)
	for i := range p {
		p[i] = uint8((i*37 + i*i%101 + i/w*11) % 256)
	}
	a, err := data.NewArray(p, c, h, w)
	require.NoError(t, err)
	return a
}

func apply(t *testing.T, a data.Array, ts ...images.Transform) data.Array {
	t.Helper()
	out, err := images.Compose(ts...)(a, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, err)
	return out
}

func elements[T tensor.Element](t *testing.T, a data.Array) []T {
	t.Helper()
	v, err := data.Elements[T](a)
	require.NoError(t, err)
	return v
}

func TestResize_AsPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/resize.json")
	require.NoError(t, err)
	var cases []struct {
		Filter      string
		Image, Size []int
		Float       []float32
		Uint8       []int
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 54)
	filters := map[string]images.Filter{"antialias": images.Antialias, "bilinear": images.Bilinear, "nearest": images.Nearest}
	for _, c := range cases {
		a, f := pattern(t, c.Image[0], c.Image[1], c.Image[2]), filters[c.Filter]
		require.Equal(t, c.Filter, f.String())
		got := apply(t, a, images.ToFloat(), images.Resize(c.Size[0], c.Size[1], f))
		require.Equal(t, tensor.Shape{c.Image[0], c.Size[0], c.Size[1]}, got.Shape())
		require.InDeltaSlice(t, c.Float, elements[float32](t, got), 2e-6, "%v", c)
		for i, v := range elements[uint8](t, apply(t, a, images.Resize(c.Size[0], c.Size[1], f))) {
			require.InDelta(t, c.Uint8[i], int(v), 1, "a sum close to a half may round otherwise")
		}
	}
	require.Equal(t, tensor.Shape{3, 4, 5}, apply(t, pattern(t, 3, 7, 9), images.ResizeShorter(4, images.Antialias)).Shape())
}

func TestTransforms(t *testing.T) {
	a, err := data.NewArray([]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8}, 1, 3, 3)
	require.NoError(t, err)
	require.Equal(t, []uint8{2, 1, 0, 5, 4, 3, 8, 7, 6}, elements[uint8](t, apply(t, a, images.HorizontalFlip())))
	require.Equal(t, []uint8{4}, elements[uint8](t, apply(t, a, images.CenterCrop(1, 1))))
	require.Equal(t, elements[uint8](t, a), elements[uint8](t, apply(t, a, images.Pad(2), images.CenterCrop(3, 3))))
	require.Equal(t, []float32{-1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3},
		elements[float32](t, apply(t, a, func(a data.Array, _ *rand.Rand) (data.Array, error) {
			return data.NewArray([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8}, 1, 3, 3)
		}, images.Normalize([]float32{2}, []float32{2}))))
	require.Equal(t, float32(8)/255, elements[float32](t, apply(t, a, images.ToFloat()))[8])
	colour, err := data.NewArray([]uint8{100, 200, 50}, 3, 1, 1)
	require.NoError(t, err)
	require.Equal(t, []uint8{152, 152, 152}, elements[uint8](t, apply(t, colour, images.Gray(3)))) // 152.99
	r, seen := rand.New(rand.NewPCG(3, 4)), map[uint8]int{}
	for range 400 {
		cut, err := images.RandomCrop(2, 2)(a, r)
		require.NoError(t, err)
		seen[elements[uint8](t, cut)[0]]++
	}
	require.Len(t, seen, 4, "each of 0, 1, 3 and 4 is a corner")
	require.Equal(t, elements[uint8](t, a), elements[uint8](t, apply(t, a, images.RandomHorizontalFlip(0))))
	require.Equal(t, uint8(2), elements[uint8](t, apply(t, a, images.RandomHorizontalFlip(1)))[0])
}

func TestTransforms_RefuseWhatCannotBe(t *testing.T) {
	a := pattern(t, 3, 4, 5)
	flat, err := data.NewArray([]uint8{1, 2})
	require.NoError(t, err)
	empty, err := data.NewArray([]uint8{}, 1, 0, 2)
	require.NoError(t, err)
	var shape *tensor.ShapeError
	var dtype *tensor.DTypeError
	var bad *data.ArgumentError
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range []images.Transform{images.Resize(2, 2, images.Nearest), images.CenterCrop(1, 1), images.Gray(1), images.Pad(1), images.ToFloat(),
		images.Normalize([]float32{0}, []float32{1}), images.RandomCrop(1, 1), images.RandomHorizontalFlip(0.5), images.HorizontalFlip()} {
		_, err := f(flat, r)
		require.ErrorAs(t, err, &shape)
		_, err = f(data.Array{}, r)
		require.ErrorAs(t, err, &shape)
		_, err = f(empty, r)
		require.ErrorAs(t, err, &shape)
	}
	for _, f := range []images.Transform{images.Resize(0, 2, images.Nearest), images.Resize(2, 2, 9), images.ResizeShorter(0, 0), images.CenterCrop(0, 1),
		images.Gray(2), images.Pad(-1), images.Normalize([]float32{0}, nil), images.Normalize([]float32{0}, []float32{0}), images.RandomHorizontalFlip(2)} {
		_, err := f(a, r)
		require.ErrorAs(t, err, &bad)
	}
	_, err = images.CenterCrop(9, 1)(a, r)
	require.ErrorAs(t, err, &shape)
	_, err = images.Normalize([]float32{0, 0, 0}, []float32{1, 1, 1})(a, r)
	require.ErrorAs(t, err, &dtype)
	_, err = images.RandomCrop(1, 1)(a, nil)
	require.ErrorAs(t, err, &bad)
	_, err = images.RandomHorizontalFlip(0.5)(a, nil)
	require.ErrorAs(t, err, &bad)
}

// picture is 2 by 1 pixels: (10, 20, 30) half transparent and (200, 100, 0).
func picture() image.Image {
	m := image.NewNRGBA(image.Rect(5, 6, 7, 7))
	m.SetNRGBA(5, 6, color.NRGBA{10, 20, 30, 128})
	m.SetNRGBA(6, 6, color.NRGBA{200, 100, 0, 255})
	return m
}

func encoded(t *testing.T, f func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, f(&b))
	return b.Bytes()
}

func TestDecode_ReadsPNGAndJPEG(t *testing.T) {
	a, err := images.Decode(bytes.NewReader(encoded(t, func(w io.Writer) error { return png.Encode(w, picture()) })))
	require.NoError(t, err)
	require.Equal(t, tensor.Shape{3, 1, 2}, a.Shape())
	require.Equal(t, []uint8{10, 200, 20, 100, 30, 0}, elements[uint8](t, a))
	grey := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range grey.Pix {
		grey.Pix[i] = 77
	}
	for _, text := range [][]byte{
		encoded(t, func(w io.Writer) error { return png.Encode(w, grey) }),
		encoded(t, func(w io.Writer) error { return jpeg.Encode(w, grey, nil) }),
	} {
		a, err = images.Decode(bytes.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, tensor.Shape{3, 8, 8}, a.Shape())
		for _, v := range elements[uint8](t, a) {
			require.InDelta(t, 77, int(v), 1)
		}
		var bad *images.FileError
		_, err = images.Decode(bytes.NewReader(text[:len(text)/2]))
		require.ErrorAs(t, err, &bad)
	}
	_, err = images.Decode(bytes.NewReader([]byte("GIF89a..")))
	require.ErrorIs(t, err, images.ErrFormat)
	_, err = images.Decode(nil)
	require.Error(t, err)
}

func TestFolder_ReadsClassesInBatches(t *testing.T) {
	text := encoded(t, func(w io.Writer) error { return png.Encode(w, picture()) })
	files := fstest.MapFS{"dog/b.png": {Data: text}, "cat/x/a.PNG": {Data: text}, "cat/notes.txt": {}, "dog/a.png": {Data: text}, "readme": {}}
	d, err := images.OpenFolder(files, images.RandomHorizontalFlip(0.5), images.ToFloat())
	require.NoError(t, err)
	require.Equal(t, []string{"cat", "dog"}, d.Classes())
	require.Equal(t, "dog/a.png", d.File(1))
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	defer func() { require.NoError(t, memory.Drop(dev)) }()
	var want []float64
	for workers := range 3 {
		l := data.NewSourceLoader(dev, d, 3, data.Workers(workers), data.WithGenerator(tensor.NewGenerator(4)))
		for x, y := range l.Batches() {
			got, err := x.Float64s()
			require.NoError(t, err)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
			require.Equal(t, tensor.Shape{3, 3, 1, 2}, x.Shape())
			classes, err := tensor.ToSlice[int64](y)
			require.NoError(t, err)
			require.Equal(t, []int64{0, 1, 1}, classes)
		}
		require.NoError(t, l.Err())
		require.NoError(t, l.Close())
	}
	files["dog/b.png"] = &fstest.MapFile{Data: text[:20]}
	_, err = d.Example(context.Background(), 2, nil)
	require.ErrorContains(t, err, "images: dog/b.png: ")
	delete(files, "dog/b.png")
	_, err = d.Example(context.Background(), 2, nil)
	require.EqualError(t, err, "images: dog/b.png: "+fs.ErrNotExist.Error())
	_, err = d.Example(context.Background(), 3, nil)
	require.Error(t, err)
	for _, none := range []fs.FS{nil, fstest.MapFS{}, fstest.MapFS{"cat/notes.txt": {}}} {
		_, err = images.OpenFolder(none)
		require.Error(t, err)
	}
}
