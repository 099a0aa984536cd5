package main

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/cuda" // devices that -device names
	"github.com/cistern-ml/cistern/internal/ptx"
)

// started is what one process found.
type started struct {
	Name    string    `json:"name"`  // of the device
	Context float64   `json:"start"` // milliseconds until the device had copied something
	Modules []*module `json:"modules"`
}

// module is one that was loaded.
type module struct {
	Name    string  `json:"name"`
	Bytes   int     `json:"ptx_bytes"`
	Kernels int     `json:"kernels"`
	Ms      float64 `json:"ms"`         // all kernels, one by one
	Longest float64 `json:"longest_ms"` // of one
}

// load loads the files into the device, one after the other, and writes what that took.
func (o *options) load(w io.Writer) error {
	begin := time.Now()
	dev, err := device.Open(o.device)
	if err != nil {
		return err
	}
	s := &started{Name: dev.Properties().Name}
	launcher, ok := dev.(device.Launcher)
	if !ok {
		return errors.Join(fmt.Errorf("%s launches no compiled kernels", dev.ID()), dev.Close())
	}
	if err := touch(dev); err != nil {
		return errors.Join(err, dev.Close())
	}
	s.Context = milliseconds(begin)
	for _, file := range o.files {
		if err := s.add(launcher, file); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", file, err), dev.Close())
		}
	}
	return errors.Join(json.NewEncoder(w).Encode(s), dev.Close())
}

// touch makes the device start.
func touch(dev device.Device) error {
	p, err := dev.Malloc(1)
	if err != nil {
		return err
	}
	return errors.Join(dev.DefaultStream().CopyToHost(make([]byte, 1), p), dev.Free(p))
}

// add loads the kernels of a module, one by one, as package kernels/cuda does with those that a program uses.
func (s *started) add(dev device.Launcher, file string) error {
	text, err := read(file)
	if err != nil {
		return err
	}
	image, err := ptx.Read(string(text))
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(filepath.Base(file), ".ptx")
	m := &module{Name: name, Bytes: len(text)}
	for _, kernel := range image.Names() {
		if err := m.load(dev, image, kernel); err != nil {
			return fmt.Errorf("%s: %w", kernel, err)
		}
	}
	s.Modules = append(s.Modules, m)
	return nil
}

func (m *module) load(dev device.Launcher, image *ptx.Image, kernel string) error {
	text, err := image.Kernel(kernel)
	if err != nil {
		return err
	}
	begin := time.Now()
	loaded, err := dev.LoadModule(text)
	if err != nil {
		return err
	}
	took := milliseconds(begin)
	m.Kernels++
	m.Ms += took
	m.Longest = max(m.Longest, took)
	return loaded.Close()
}

func read(file string) (image []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func milliseconds(since time.Time) float64 { return 1e3 * time.Since(since).Seconds() }
