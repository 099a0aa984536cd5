// Package dataset loads MNIST for the example: either the full database from a folder, or the 10,000 images that are
// embedded in the program, so that the example runs anywhere without a download.
package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cistern-ml/cistern/examples/mnist/data"
	"github.com/cistern-ml/cistern/examples/mnist/internal/idx"
)

// Classes is the number of classes: the digits 0 to 9.
const Classes = 10

// Set is a set of labelled images of one size.
type Set struct {
	Images     []uint8 // Len()*Rows*Cols values, row-major: 0 is background, 255 is ink
	Labels     []uint8 // 0 to 9, one for each image
	Rows, Cols int     // pixels
}

// Len is the number of images.
func (s Set) Len() int { return len(s.Labels) }

// Image returns the Rows*Cols values of image i. They are part of s.Images, not a copy.
func (s Set) Image(i int) []uint8 {
	n := s.Rows * s.Cols
	return s.Images[i*n : (i+1)*n : (i+1)*n]
}

// Load returns the images to train on and the images to test on.
//
// With a folder these are the two sets of the database there: 60,000 and 10,000 images of 28 by 28 pixels for MNIST
// itself, and whatever the files say for others of its form. A file may have any of the names that are in use, such as
// train-images-idx3-ubyte, train-images.idx3-ubyte, or either with .gz, plain or compressed.
//
// With "" it is the embedded test set of MNIST, split 8,000 to 2,000: see Split.
//
// An error says which file is wrong and how; it is an *idx.Error, and matches fs.ErrNotExist for a missing file.
func Load(dir string) (train, test Set, err error) {
	if dir == "" {
		all, err := load(data.Files, "embedded ", data.Images, data.Labels)
		if err != nil {
			return Set{}, Set{}, err
		}
		train, test = Split(all, embeddedPart)
		return train, test, nil
	}
	return loadFolder(os.DirFS(dir), strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// loadFolder reads the four files of the database. The prefix goes before the file names in errors.
func loadFolder(fsys fs.FS, prefix string) (train, test Set, err error) {
	if train, err = loadSet(fsys, prefix, "train"); err != nil {
		return Set{}, Set{}, err
	}
	if test, err = loadSet(fsys, prefix, "t10k"); err != nil {
		return Set{}, Set{}, err
	}
	if train.Rows != test.Rows || train.Cols != test.Cols {
		return Set{}, Set{}, &idx.Error{
			File: prefix + "t10k-images",
			Err:  idx.ErrMismatch,
			Detail: fmt.Sprintf("its images have %dx%d pixels, those of train-images %dx%d",
				test.Rows, test.Cols, train.Rows, train.Cols),
		}
	}
	return train, test, nil
}

// loadSet reads the two files of one set, "train" or "t10k", under whichever names they have.
func loadSet(fsys fs.FS, prefix, set string) (Set, error) {
	images, err := find(fsys, prefix, set+"-images", "idx3-ubyte")
	if err != nil {
		return Set{}, err
	}
	labels, err := find(fsys, prefix, set+"-labels", "idx1-ubyte")
	if err != nil {
		return Set{}, err
	}
	return load(fsys, prefix, images, labels)
}

// find returns the name under which a file exists: MNIST's own name first, then the one of some mirrors.
func find(fsys fs.FS, prefix, stem, kind string) (string, error) {
	names := []string{stem + "-" + kind, stem + "-" + kind + ".gz", stem + "." + kind, stem + "." + kind + ".gz"}
	for _, name := range names {
		_, err := fs.Stat(fsys, name)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", &idx.Error{File: prefix + name, Err: err}
		}
	}
	return "", &idx.Error{File: prefix + names[0], Err: fs.ErrNotExist, Detail: "nor " + strings.Join(names[1:], ", ")}
}

func load(fsys fs.FS, prefix, images, labels string) (Set, error) {
	pictures, classes, err := idx.ReadPair(fsys, prefix, images, labels)
	if err != nil {
		return Set{}, err
	}
	return Set{Images: pictures.Pixels, Labels: classes, Rows: pictures.Rows, Cols: pictures.Cols}, nil
}
