// Package data holds the 10,000 images of the MNIST test set and their labels inside the program. README.md beside this
// file says where they come from.
package data

import "embed"

// The names of the files in Files, both compressed by gzip.
const (
	Images = "t10k-images-idx3-ubyte.gz"
	Labels = "t10k-labels-idx1-ubyte.gz"
)

// Files are the two files.
//
//go:embed t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz
var Files embed.FS
