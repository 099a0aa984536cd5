package idx

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead checks that any bytes give either an *Error or a set that encodes to exactly those bytes again.
func FuzzRead(f *testing.F) {
	f.Add(images)
	f.Add(labels)
	f.Add(zip(f, images))
	f.Add(zip(f, labels))
	f.Add(encode(magicImages, []int{1 << 31, 1 << 31, 1 << 31}, pixels))
	f.Add([]byte{0x1f, 0x8b})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		pictures, err := ReadImages(bytes.NewReader(data), "fuzzed")
		if err == nil {
			requireEncodes(t, data, encode(magicImages, []int{pictures.Count, pictures.Rows, pictures.Cols}, pictures.Pixels))
		} else {
			requireNames(t, err, "fuzzed")
		}
		classes, err := ReadLabels(bytes.NewReader(data), "fuzzed")
		if err == nil {
			requireEncodes(t, data, encode(magicLabels, []int{len(classes)}, classes))
		} else {
			requireNames(t, err, "fuzzed")
		}
	})
}

// requireEncodes checks that a file that was read without error holds what was read and nothing else. What gzip unfolds
// to cannot be compared with the file.
func requireEncodes(t *testing.T, file, encoded []byte) {
	if !bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		require.Equal(t, file, encoded)
	}
}
