package main

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// capacity is small, so that memory runs out where a reader can see it.
const capacity = 64 * device.MiB

// open makes a device of the tour's own.
func open(kind string) (device.Device, error) {
	if kind == "sim" {
		return sim.New(capacity, sim.ManualStreams()), nil
	}
	return device.Open("host:64MiB")
}

// work enqueues work on a stream that is under way until finish is called.
func work(dev device.Device, s device.Stream) (finish func(), err error) {
	over := make(chan struct{})
	err = s.(device.Executor).Submit("wait", func() error {
		<-over
		return nil
	})
	if d, ok := dev.(*sim.Device); ok { // it runs nothing, and work is done when it is told so
		return func() { d.Complete(s.ID()) }, err
	}
	return func() { close(over) }, err
}
