package safetensors

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors of a header name the tensor and the part of it, in the words of the format and not in those of this package.
func TestNewReader_SaysWhichPartOfATensorIsWrong(t *testing.T) {
	const offsets = "data_offsets: wanted two numbers of bytes from 0 to 9223372036854775807, found "
	for header, want := range map[string]string{
		`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]}}`: offsets + "[0,99999999999999999999]",
		`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`:                  offsets + "[0,4,8]",
		`{"w":{"dtype":"F32","shape":[1],"data_offsets":[4]}}`:                      offsets + "[4]",
		`{"w":{"dtype":"F32","shape":[1],"data_offsets":{}}}`:                       offsets + "{}",
		`{"w":{"dtype":"F32","shape":[1]}}`:                                         offsets + "nothing",
		`{"w":{"dtype":"F32","shape":[],"data_offsets":null}}`:                      offsets + "null",
		`{"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`:                  "shape: wanted a list of sizes from 0 to 9223372036854775807, found [1.5]",
		`{"w":{"dtype":"F32","data_offsets":[0,4]}}`:                                "shape: wanted a list of sizes from 0 to 9223372036854775807, found nothing",
		`{"w":{"dtype":7,"shape":[1],"data_offsets":[0,4]}}`:                        "dtype: wanted a text, found 7",
		`{"w":{"DTYPE":"F32","shape":[1],"data_offsets":[0,4]}}`:                    "dtype: wanted a text, found nothing",
		`{"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`:      `"dtype" is there twice`,
		`{"w":{"dtype":"F32","shape":[null],"data_offsets":[0,0]}}`:                 "shape: wanted a list of sizes from 0 to 9223372036854775807, found [null]",
		`{"w":[1]}`: "it does not begin with {",
	} {
		_, err := NewReader(bytes.NewReader(file(header, 0, 0, 0, 0)))
		require.EqualError(t, err, `safetensors: tensor "w": `+want, header)
	}
}
