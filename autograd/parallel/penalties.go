package parallel

import "github.com/cistern-ml/cistern/autograd"

// Hooks of parts that get a gradient of their own, as of a penalty, which no rank sends. In a pass that sums, installParts calls them with the rest. A pass that Run does not know ends with them: all at the end, as parts share memory, and a step
// of one while others are still needed would be the error of a change in place.

// penalties is told of the backward passes over a graph in which Run has run nothing, and which have come to parts.
type penalties struct {
	d *DataParallel
	g *autograd.Graph
}

// Reached implements autograd.PassWatcher. It keeps no other watcher from a pass.
func (penalties) Reached() bool { return false }

// Admit implements it.
func (penalties) Admit(*autograd.Parameter) error { return nil }

// Refused implements it: nobody waits for the pass.
func (penalties) Refused(err error) error { return err }

// Ended implements it. While gradients wait to be summed, hooks wait for the pass that sums them.
func (w penalties) Ended(err error, _ bool) error {
	d := w.d
	if autograd.WatchesPasses(key, w.g, passes(w)) { // which ends the pass
		return err
	}
	d.penalized.Store(false)
	if err != nil || d.closed || d.broken != nil || d.noSync || d.incomplete() {
		return err
	}
	done := false
	defer d.guard("Backward", &done)
	defer func(before bool) { d.installing = before }(d.installing) // hooks are told that a pass is under way
	d.installing = true
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			if err = c.tell(w.g); err != nil {
				done = true
				return d.fatal("Backward", err) // the ranks would differ
			}
		}
	}
	done = true
	return nil
}

// firstUnheard is the name of the first parameter of which this rank's part has a gradient of its own that hooks have not been told.
func (d *DataParallel) firstUnheard() string {
	for _, q := range d.params {
		for _, c := range q.bucket.pieces {
			if c.of == q && c.unheard {
				return q.name
			}
		}
	}
	return ""
}

// tell calls the hooks of a part that has a gradient of its own, if they have not been told.
func (c *piece) tell(g *autograd.Graph) error {
	unheard := c.unheard && c.p.Grad() != nil // a pass that has failed may have left none
	c.unheard = false
	if !unheard {
		return nil
	}
	return autograd.CallPostHooks(key, g, c.p)
}
