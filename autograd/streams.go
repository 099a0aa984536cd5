package autograd

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// A graph works on one stream. Its leaves may live on others: then the graph's stream waits for theirs when they come in
// (follow), and theirs wait for the graph's when backward has left gradients (lead). Memory needs nothing more: package
// tensor records the use of a block on another stream than its own with the allocator.

// follow makes the graph's stream wait for what is on s now.
func (g *Graph) follow(s device.Stream) error {
	if s.ID() == g.exec.Stream().ID() {
		return nil
	}
	if !slices.ContainsFunc(g.foreign, func(f device.Stream) bool { return f.ID() == s.ID() }) {
		g.foreign = append(g.foreign, s)
	}
	return order(g.dev, s, g.exec.Stream())
}

// followAll makes the graph's stream wait for all streams of its leaves: gradients that are added to may be in use there.
func (g *Graph) followAll() error {
	for _, s := range g.foreign {
		if err := order(g.dev, s, g.exec.Stream()); err != nil {
			return err
		}
	}
	return nil
}

// lead makes the streams of the leaves wait for the graph's.
func (g *Graph) lead() error {
	for _, s := range g.foreign {
		if err := order(g.dev, g.exec.Stream(), s); err != nil {
			return err
		}
	}
	return nil
}

// order makes later work on after wait for what is on before now, without blocking the caller.
func order(dev device.Device, before, after device.Stream) error {
	e, err := dev.NewEvent()
	if err != nil {
		return err
	}
	err = before.Record(e)
	if err == nil {
		err = after.Wait(e)
	}
	if cerr := e.Close(); err == nil {
		err = cerr
	}
	return err
}
