package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// archive packs files and folders of a folder, those that are there. It takes the place of an older file at once, so that there is always a whole one.
func archive(file, folder string, names ...string) (err error) {
	f, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(f)
	pack := tar.NewWriter(zip)
	for _, name := range names {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(folder, name), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
				return nil // not yet there
			}
			if err != nil {
				return err
			}
			return add(pack, folder, path)
		}))
	}
	if err = errors.Join(err, pack.Close(), zip.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// add packs one file, as long as it is now: a process that was left alone may still write to it.
func add(pack *tar.Writer, folder, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	head, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	if head.Name, err = filepath.Rel(folder, path); err != nil {
		return err
	}
	head.Name = filepath.ToSlash(head.Name)
	if err := pack.WriteHeader(head); err != nil {
		return err
	}
	_, err = io.CopyN(pack, f, info.Size())
	return err
}
