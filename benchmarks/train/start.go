package main

import (
	"errors"
	"os"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// writeStart writes what both sides begin with to a file. It is made on the host: no side's random numbers, and no GPU, have a part
// in it.
func (t *task) writeStart(file string) (err error) {
	dev := host.New()
	defer func() { err = errors.Join(err, memory.Drop(dev), dev.Close()) }()
	e, err := tensor.On(dev)
	if err != nil {
		return err
	}
	s, err := t.newStart(e, false)
	if err != nil {
		return err
	}
	defer s.Release()
	if err := s.To(dev, nn.Seed(1)); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return nn.Save(f, s)
}

// load reads the file.
func (s *start) load(file string) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return nn.Load(f, s)
}
