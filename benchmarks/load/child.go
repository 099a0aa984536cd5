package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/cuda" // devices that -device names
	"github.com/cistern-ml/cistern/internal/ptx"
)

// child loads modules into a device, one after the other.
type child struct {
	dev device.Launcher
	out *json.Encoder
}

// load is the program of a process that loads the named modules. What does not load is written like what does; an error is that
// of the device, or of the output.
func (o *options) load(w io.Writer) error {
	begin := time.Now()
	dev, err := device.Open(o.device)
	if err != nil {
		return err
	}
	launcher, ok := dev.(device.Launcher)
	if !ok {
		return errors.Join(fmt.Errorf("%s launches no compiled kernels", dev.ID()), dev.Close())
	}
	if err := touch(dev); err != nil {
		return errors.Join(err, dev.Close())
	}
	c := &child{dev: launcher, out: json.NewEncoder(w)}
	err = c.out.Encode(line{Device: dev.Properties().Name, Start: milliseconds(begin)})
	for i := 0; i < len(o.files) && err == nil; i++ {
		err = c.add(o.files[i])
	}
	return errors.Join(err, dev.Close())
}

// touch makes the device start.
func touch(dev device.Device) error {
	p, err := dev.Malloc(1)
	if err != nil {
		return err
	}
	return errors.Join(dev.DefaultStream().CopyToHost(make([]byte, 1), p), dev.Free(p))
}

// add loads the kernels of a module, one by one, as package kernels/cuda does with those that a program uses. A kernel that does not
// load is noted, and the next one tried, unless the device is of no more use.
func (c *child) add(file string) error {
	image, text, err := open(file)
	if err != nil {
		return errors.Join(c.out.Encode(line{Module: ptx.Module(file)}), c.fail("", err))
	}
	names := image.Names()
	if err := c.out.Encode(line{Module: ptx.Module(file), Bytes: len(text), Count: len(names)}); err != nil {
		return err
	}
	for i, name := range names {
		if err := c.out.Encode(line{Loading: name}); err != nil {
			return err
		}
		k, err := c.try(image, name)
		if err == nil {
			err = c.out.Encode(line{Kernel: k})
		} else if left := len(names) - i - 1; errors.Is(err, device.ErrUnavailable) && left > 0 {
			return c.fail(name, fmt.Errorf("%w; the other %d kernels were not tried", err, left))
		} else {
			err = c.fail(name, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *child) fail(kernel string, err error) error {
	return c.out.Encode(line{Failure: &failure{Kernel: kernel, Error: err.Error()}})
}

// try loads a kernel and asks for it: what is wrong with it may show only then.
func (c *child) try(image *ptx.Image, name string) (*kernel, error) {
	text, err := image.Kernel(name)
	if err != nil {
		return nil, err
	}
	k := &kernel{Name: name}
	begin := time.Now()
	m, err := c.dev.LoadModule(text)
	if err != nil {
		return nil, err
	}
	err = k.ask(m)
	k.Ms = milliseconds(begin)
	return k, errors.Join(err, m.Close())
}

// ask looks the kernel up, and what it takes.
func (k *kernel) ask(m device.Module) error {
	found, err := m.Kernel(k.Name)
	if err != nil {
		return err
	}
	measured, ok := found.(device.MeasuredKernel)
	if !ok {
		return nil
	}
	u, err := measured.Usage()
	k.Registers, k.Shared, k.Local, k.MaxThreads = u.Registers, u.Shared, u.Local, u.MaxThreads
	return err
}

// open reads a module.
func open(file string) (*ptx.Image, []byte, error) {
	text, err := ptx.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	image, err := ptx.Read(string(text))
	return image, text, err
}

func milliseconds(since time.Time) float64 { return 1e3 * time.Since(since).Seconds() }
