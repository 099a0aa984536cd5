package idx

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadImages_SaysWhatIsWrong(t *testing.T) {
	const biggest = 0xffffffff
	zipped := zip(t, images)
	cases := []struct {
		name   string
		data   []byte
		reason error
		detail string
	}{
		{"empty file", nil, ErrTruncated, "magic number has 0 of 4 bytes"},
		{"half a magic number", images[:2], ErrTruncated, "magic number has 2 of 4 bytes"},
		{"labels instead", labels, ErrMagic, "magic number 0x00000801, want 0x00000803"},
		{"text", []byte("<!DOCTYPE html>"), ErrMagic, "magic number 0x3c21444f, want 0x00000803"},
		{"little-endian", []byte{3, 8, 0, 0, 3, 0, 0, 0}, ErrMagic, "magic number 0x03080000, want 0x00000803"},
		{"header cut short", images[:9], ErrTruncated, "dimensions has 1 of 4 bytes"},
		{"pixels cut short", images[:len(images)-1], ErrTruncated, "data has 23 of 24 bytes"},
		{"no pixels", images[:16], ErrTruncated, "data has 0 of 24 bytes"},
		{"one byte too many", append(bytes.Clone(images), 5), ErrTrailing, "first of them 0x05"},
		{"no images", encode(magicImages, []int{0, 2, 4}, nil), ErrDimensions,
			"dimension 0 is 0, so that the data is not 1 to 1073741824 bytes"},
		{"no columns", encode(magicImages, []int{3, 2, 0}, nil), ErrDimensions,
			"dimension 2 is 0, so that the data is not 1 to 1073741824 bytes"},
		{"absurd dimensions", encode(magicImages, []int{biggest, biggest, biggest}, pixels), ErrDimensions,
			"dimension 0 is 4294967295, so that the data is not 1 to 1073741824 bytes"},
		{"absurd product", encode(magicImages, []int{1 << 10, 1 << 20, biggest}, pixels), ErrDimensions,
			"dimension 2 is 4294967295, so that the data is not 1 to 1073741824 bytes"},
		{"just above the limit", encode(magicImages, []int{1, MaxBytes, 2}, pixels), ErrDimensions,
			"dimension 2 is 2, so that the data is not 1 to 1073741824 bytes"},
		{"gzip header cut short", zipped[:7], ErrTruncated, "in the gzip header"},
		{"gzip of nothing", zip(t, nil), ErrTruncated, "magic number has 0 of 4 bytes"},
		{"gzip trailer cut short", zipped[:len(zipped)-3], ErrTruncated, "in the gzip trailer"},
		{"gzip with an unknown method", flip(zipped, 2), ErrGzip, "gzip: invalid header in the gzip header"},
		{"gzip with a wrong checksum", flip(zipped, len(zipped)-8), ErrGzip, "gzip: invalid checksum in the gzip trailer"},
		{"gzip with a wrong length", flip(zipped, len(zipped)-1), ErrGzip, "gzip: invalid checksum in the gzip trailer"},
		{"gzip with a corrupt block", flip(zipped, 10), ErrGzip, "flate: corrupt input before offset 5 in the magic number"},
		{"gzip and then something else", append(bytes.Clone(zipped), "tail"...), ErrTruncated, "in the gzip trailer"},
		{"gzip and then a longer something else", append(bytes.Clone(zipped), "a long tail"...), ErrGzip, "gzip: invalid header in the gzip trailer"},
		{"gzip with too many pixels", zip(t, append(bytes.Clone(images), 5)), ErrTrailing, "first of them 0x05"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadImages(bytes.NewReader(c.data), "some/file")
			require.Nil(t, got)
			require.ErrorIs(t, err, c.reason)
			require.EqualError(t, err, "some/file: "+c.reason.Error()+": "+c.detail)
			requireNames(t, err, "some/file")
		})
	}
}

func TestReadLabels_SaysWhatIsWrong(t *testing.T) {
	cases := []struct {
		name   string
		data   []byte
		reason error
		detail string
	}{
		{"images instead", images, ErrMagic, "magic number 0x00000803, want 0x00000801"},
		{"label of eleven classes", encode(magicLabels, []int{3}, []byte{9, 10, 0}), ErrLabel, "label 1 is 10, the largest is 9"},
		{"no labels", encode(magicLabels, []int{0}, nil), ErrDimensions,
			"dimension 0 is 0, so that the data is not 1 to 1073741824 bytes"},
		{"labels cut short", labels[:len(labels)-2], ErrTruncated, "data has 1 of 3 bytes"},
		{"one byte too many", append(bytes.Clone(labels), 1), ErrTrailing, "first of them 0x01"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadLabels(bytes.NewReader(c.data), "some/file")
			require.Nil(t, got)
			require.ErrorIs(t, err, c.reason)
			require.EqualError(t, err, "some/file: "+c.reason.Error()+": "+c.detail)
		})
	}
}

// Every proper prefix of a file is refused, plain and compressed: no cut goes unnoticed.
func TestRead_RefusesEveryPrefix(t *testing.T) {
	for _, whole := range [][]byte{images, zip(t, images)} {
		for n := range len(whole) {
			_, err := ReadImages(bytes.NewReader(whole[:n]), "cut")
			require.ErrorIs(t, err, ErrTruncated, "%d of %d bytes", n, len(whole))
		}
	}
}

// flip returns data with all bits of byte i inverted.
func flip(data []byte, i int) []byte {
	out := bytes.Clone(data)
	out[i] ^= 0xff
	return out
}
