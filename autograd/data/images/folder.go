package images

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/internal/isnil"
)

// Folder is a data set of images in folders, one for each class (torchvision.datasets.ImageFolder). It is a data.Source whose examples are the
// image and its class, an int64 without dimensions.
type Folder struct {
	fsys      fs.FS
	classes   []string
	files     []file
	transform Transform
}

type file struct {
	name  string
	class int
}

// OpenFolder lists the images below the folders of fsys, such as os.DirFS("flowers/train"). A folder is a class, with the number that it has in the
// order of the names; its images are the files below it whose names end in .png, .jpg or .jpeg, in the order of their paths. Images are read, and
// changed by the transforms in turn, when they are asked for. A *FileError names what cannot be listed, and a class without images.
func OpenFolder(fsys fs.FS, transforms ...Transform) (*Folder, error) {
	if isnil.Value(fsys) {
		return nil, &data.ArgumentError{Detail: "OpenFolder: " + isnil.Why("file system", fsys)}
	}
	d := &Folder{fsys: fsys, transform: Compose(transforms...)}
	entries, err := fs.ReadDir(fsys, ".") // sorted
	if err != nil {
		return nil, &FileError{File: ".", Err: reason(err)}
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := d.add(entry.Name()); err != nil {
			return nil, err
		}
	}
	if len(d.classes) == 0 {
		return nil, &FileError{File: ".", Err: errors.New("no folders, which would be the classes")}
	}
	return d, nil
}

// add lists the images of a class.
func (d *Folder) add(class string) error {
	before := len(d.files)
	err := fs.WalkDir(d.fsys, class, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return &FileError{File: name, Err: reason(err)}
		}
		if !entry.IsDir() && isImage(name) {
			d.files = append(d.files, file{name, len(d.classes)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(d.files) == before {
		return &FileError{File: class, Err: errors.New("no images (.png, .jpg, .jpeg)")}
	}
	d.classes = append(d.classes, class)
	return nil
}

func isImage(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".png", ".jpg", ".jpeg":
		return true
	}
	return false
}

// Len is the number of images.
func (d *Folder) Len() int {
	if d == nil {
		return 0
	}
	return len(d.files)
}

// Classes are the names of the classes, by their numbers.
func (d *Folder) Classes() []string {
	if d == nil {
		return nil
	}
	return slices.Clone(d.classes)
}

// File is the path of image i, "" if there is none.
func (d *Folder) File(i int64) string {
	if d == nil || i < 0 || i >= int64(len(d.files)) {
		return ""
	}
	return d.files[i].name
}

// Example reads image i.
func (d *Folder) Example(ctx context.Context, i int64, r *rand.Rand) (data.Example, error) {
	name := d.File(i)
	if name == "" {
		return nil, &data.ArgumentError{Detail: "the folder has no such image"}
	}
	a, err := Read(d.fsys, name)
	if err != nil {
		return nil, err
	}
	if a, err = d.transform(a, r); err != nil {
		return nil, &FileError{File: name, Err: err}
	}
	return data.Example{a, data.Scalar(int64(d.files[i].class))}, nil
}
