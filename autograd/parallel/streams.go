package parallel

import (
	"context"

	"github.com/cistern-ml/cistern/device"
)

// The streams that work on the model, and that of the collectives, wait for each other.

// behind makes the collectives that come wait for what is on the graph's stream, and on the parameters', now.
func (d *DataParallel) behind() error {
	if err := order(d.exec.Stream(), d.side.Stream()); err != nil {
		return err
	}
	if d.on.Stream().ID() == d.exec.Stream().ID() {
		return nil
	}
	return order(d.on.Stream(), d.side.Stream())
}

// ahead makes what comes on those streams wait for the collectives so far, and fail if one of them does: what it reads would be something that nobody has made.
func (d *DataParallel) ahead() error {
	if err := d.join(); err != nil {
		return err
	}
	return d.follow()
}

// join is the wait alone.
func (d *DataParallel) join() error {
	if err := order(d.side.Stream(), d.exec.Stream()); err != nil {
		return err
	}
	if d.on.Stream().ID() == d.exec.Stream().ID() {
		return nil
	}
	return order(d.side.Stream(), d.on.Stream())
}

// follow hands errors of the collectives so far on to those streams.
func (d *DataParallel) follow() error {
	if err := d.comm.Follow(d.exec.Stream()); err != nil {
		return err
	}
	if d.on.Stream().ID() == d.exec.Stream().ID() {
		return nil
	}
	return d.comm.Follow(d.on.Stream())
}

// meet is join where memory is released next, also when there is no event to wait for.
func (d *DataParallel) meet() error {
	err := d.join()
	if err != nil {
		_ = d.side.Stream().Synchronize(context.Background()) // it tells what the other error has not
	}
	return err
}

// settled finds the errors of collectives. Where the program's stream runs inline it waits, as the next operation would; on other devices it only looks.
func (d *DataParallel) settled(op string) error {
	if e, ok := d.exec.Stream().(device.Executor); ok && e.Mode() == device.ExecInline {
		return d.wrong(op, d.side.Stream().Synchronize(context.Background()))
	}
	_, err := d.side.Stream().Done()
	return d.wrong(op, err)
}
