// Package idx reads the two kinds of IDX files that the MNIST database is made of: images and labels.
//
// An IDX file is a magic number, the dimensions, and the values in row-major order, all integers 32 bits wide and
// big-endian:
//
//	images   00 00 08 03   count   rows   columns   count*rows*columns bytes, 0 is background and 255 is ink
//	labels   00 00 08 01   count                    count bytes, each 0 to 9
//
// In the magic number 08 is "unsigned byte" and the last byte is the number of dimensions. The files are distributed
// plain and compressed by gzip; which of the two a file is shows in its first two bytes, so its name does not matter.
//
// A file is believed only as far as its bytes go: memory grows with the data that arrives, never with the size that the
// header claims, and nothing of a file that is wrong in any way is returned.
package idx

import (
	"fmt"
	"io"
	"io/fs"
)

// The magic numbers.
const (
	magicImages = 0x00000803
	magicLabels = 0x00000801
)

// MaxBytes is the largest amount of data that one file may hold, decompressed: 22 times the images of the full MNIST. It
// bounds what a small gzip file can unfold to.
const MaxBytes = 1 << 30

// MaxLabel is the largest label.
const MaxLabel = 9

// Images are greyscale pictures of one size.
type Images struct {
	Count, Rows, Cols int
	Pixels            []uint8 // Count*Rows*Cols values, row-major
}

// ReadImages reads a whole image file. The name is only for errors. Every error is an *Error.
func ReadImages(r io.Reader, name string) (*Images, error) {
	f, err := open(r, name)
	if err != nil {
		return nil, err
	}
	dims, pixels, err := f.read(magicImages)
	if err != nil {
		return nil, err
	}
	return &Images{Count: dims[0], Rows: dims[1], Cols: dims[2], Pixels: pixels}, nil
}

// ReadLabels reads a whole label file. The name is only for errors. Every error is an *Error.
func ReadLabels(r io.Reader, name string) ([]uint8, error) {
	f, err := open(r, name)
	if err != nil {
		return nil, err
	}
	_, labels, err := f.read(magicLabels)
	if err != nil {
		return nil, err
	}
	for i, l := range labels {
		if l > MaxLabel {
			return nil, &Error{File: name, Err: ErrLabel, Detail: fmt.Sprintf("label %d is %d, the largest is %d", i, l, MaxLabel)}
		}
	}
	return labels, nil
}

// ReadPair reads an image file and the label file that belongs to it. Every error is an *Error; prefix goes before the
// file names in it.
func ReadPair(fsys fs.FS, prefix, images, labels string) (*Images, []uint8, error) {
	pictures, err := readFile(fsys, prefix, images, ReadImages)
	if err != nil {
		return nil, nil, err
	}
	classes, err := readFile(fsys, prefix, labels, ReadLabels)
	if err != nil {
		return nil, nil, err
	}
	if pictures.Count != len(classes) {
		return nil, nil, &Error{
			File:   prefix + labels,
			Err:    ErrMismatch,
			Detail: fmt.Sprintf("%d labels, but %s has %d images", len(classes), prefix+images, pictures.Count),
		}
	}
	return pictures, classes, nil
}

// readFile opens a file, reads it with read and closes it.
func readFile[T any](fsys fs.FS, prefix, name string, read func(io.Reader, string) (T, error)) (T, error) {
	f, err := fsys.Open(name)
	if err != nil {
		var none T
		return none, openError(prefix+name, err)
	}
	defer f.Close()
	return read(f, prefix+name)
}
