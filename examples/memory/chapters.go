package main

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

const (
	kib = device.KiB
	mib = device.MiB
)

// all is the whole tour. Each chapter gives back what it takes.
func (t *tour) all() {
	info, err := t.alloc.MemInfo()
	if err != nil {
		t.err = err
		return
	}
	t.print("%s\n\n%s\n", t.pen.strong("A tour of device memory"), wrapped(fmt.Sprintf("The device is %s, with %s. Below each call stands what the allocator holds then: "+
		"a row for each segment, which is a piece of memory that it has of the driver, and a character for each %s of it. "+
		"A letter is a block in use, # one without a name here, a dot is cached: free for this program, and for no other.",
		t.Device.ID().Kind, device.FormatBytes(info.Total), device.FormatBytes(cell)), ""))
	t.reuse()
	t.fragmentation()
	t.limits()
	t.streams()
	t.pools()
	t.graph()
	t.end()
}

func (t *tour) reuse() {
	t.chapter("1. Allocate, free, and what stays", "Asking the driver is slow, so the allocator asks seldom: it takes much at once, and keeps what is freed.")
	var a, b, c, d memory.Block
	t.step("a, err := alloc.Alloc(4*device.MiB, stream)", "The driver gives a segment. The block is the beginning of it, and the rest is cached.", func() (err error) {
		a, err = t.take('A', t.alloc, 4*mib, t.stream)
		return err
	})
	t.step("b, err := alloc.Alloc(6*device.MiB, stream)", "A piece of the rest. The driver was not asked again.", func() (err error) {
		b, err = t.take('B', t.alloc, 6*mib, t.stream)
		return err
	})
	t.step("err = alloc.Free(a)", "Allocated memory is less, and reserved memory is what it was: what is freed is cached.", func() error { return t.free(a) })
	t.step("c, err := alloc.Alloc(2*device.MiB, stream)", "Of the free pieces the smallest that is large enough serves: the one where A was. What is left of it stays free.", func() (err error) {
		c, err = t.take('C', t.alloc, 2*mib, t.stream)
		return err
	})
	t.step("d, err := alloc.Alloc(100*device.KiB, stream)", "Blocks of up to 1 MiB lie in small segments of their own, so that they do not break up the large ones.", func() (err error) {
		d, err = t.take('D', t.alloc, 100*kib, t.stream)
		return err
	})
	t.step("err = alloc.Free(b) // and c, and d", "Neighbours that are free become one piece. Nothing is in use now; all is reserved still, and other programs on the device cannot have it.",
		func() error { return t.free(b, c, d) })
	t.step("err = alloc.EmptyCache()", "Segments in which nothing is in use go back to the driver. The next requests are slow again.", t.alloc.EmptyCache)
}

// pieces are the large and small blocks that lie in turn in a segment.
const (
	piece  = 9 * mib
	wedge  = 2 * mib
	rounds = 3
	whole  = 12 * mib // what does not fit between the wedges
)

// interleave fills segments with large blocks and a small one between each two.
func (t *tour) interleave() (large, small []memory.Block, err error) {
	for i := range rounds {
		for _, of := range []struct {
			name  byte
			bytes uint64
			to    *[]memory.Block
		}{{'A', piece, &large}, {'X', wedge, &small}, {'B', piece, &large}} {
			if of.name != 'X' {
				of.name += byte(2 * i)
			}
			b, err := t.take(of.name, t.alloc, of.bytes, t.stream)
			if err != nil {
				return nil, nil, err
			}
			*of.to = append(*of.to, b)
		}
	}
	return large, small, nil
}

func (t *tour) fragmentation() {
	t.chapter("2. Fragmentation, and its cure", "Memory that is free, and still of no use.")
	const program = "for range 3 {\n  large = append(large, alloc.Alloc(9*device.MiB, stream))\n  small = append(small, alloc.Alloc(2*device.MiB, stream))\n  large = append(large, alloc.Alloc(9*device.MiB, stream))\n}"
	var large, small []memory.Block
	fill := func() (err error) {
		large, small, err = t.interleave()
		return err
	}
	t.step("err = alloc.RecordHistory(memory.HistoryOptions{})", "So that errors can find out what would have helped, by running the program once more, in the books alone.",
		func() error { return t.alloc.RecordHistory(memory.HistoryOptions{}) })
	t.step(program, "Large blocks, and small ones (X) between them that live longer.", fill)
	t.step("err = alloc.Free(large...)", "Most is free now.", func() error { return t.free(large...) })
	oom := t.fails("_, err = alloc.Alloc(12*device.MiB, stream)", "And yet there is no room: a block cannot lie in two segments, nor over an X, and a segment with an X in it cannot go back to the driver. "+
		"The error says so, and it names a setting only if that would have helped:", memory.ErrOutOfMemory, func() error {
		_, err := t.take('?', t.alloc, whole, t.stream)
		return err
	})
	setting := oom.Setting
	if t.err == nil && setting == "" {
		t.err = errors.New("the error names no setting that would have helped")
	}
	t.step("err = alloc.Free(small...)\nerr = alloc.EmptyCache()\nconfig, err := memory.ParseConfig(oom.Setting) // \""+setting+"\"\nerr = alloc.SetConfig(config)",
		"The same again, with the setting that the error has named.", func() error {
			config, err := memory.ParseConfig(setting)
			return errors.Join(err, t.free(small...), t.alloc.EmptyCache(), t.alloc.SetConfig(config))
		})
	t.step(program, "One segment, which grows by pages: the pieces are neighbours.", fill)
	t.step("err = alloc.Free(large...)", "", func() error { return t.free(large...) })
	var w memory.Block
	t.step("w, err := alloc.Alloc(12*device.MiB, stream)", "The piece behind one round and the piece before the next are one, and it is large enough.", func() (err error) {
		w, err = t.take('W', t.alloc, whole, t.stream)
		return err
	})
	t.step("err = alloc.Free(w, small...)\nerr = alloc.EmptyCache()\nerr = alloc.SetConfig(memory.Config{})", "", func() error {
		return errors.Join(t.free(append(small, w)...), t.alloc.EmptyCache(), t.alloc.SetConfig(memory.Config{}))
	})
}

func (t *tour) limits() {
	t.chapter("3. A part of the device", "A program that shares a device can be held to a part of it.")
	t.step("err = alloc.SetMemoryFraction(0.25)", "", func() error { return t.alloc.SetMemoryFraction(0.25) })
	var a, b memory.Block
	t.step("a, err := alloc.Alloc(12*device.MiB, stream)", "", func() (err error) {
		a, err = t.take('A', t.alloc, 12*mib, t.stream)
		return err
	})
	oom := t.fails("_, err = alloc.Alloc(14*device.MiB, stream)", "The device has room, and the limit does not. errors.Is tells them apart: it is memory.ErrLimit, and not memory.ErrDeviceFull.", memory.ErrLimit, func() error {
		_, err := t.take('?', t.alloc, 14*mib, t.stream)
		return err
	})
	t.step("alloc.SetMemoryLimit(oom.EnoughLimit) // "+device.FormatBytes(oom.EnoughLimit)+"\nb, err := alloc.Alloc(14*device.MiB, stream)",
		"The error has the least limit that serves the request.", func() (err error) {
			t.alloc.SetMemoryLimit(oom.EnoughLimit)
			b, err = t.take('B', t.alloc, 14*mib, t.stream)
			return err
		})
	t.step("err = alloc.Free(a) // and b\nerr = alloc.EmptyCache()\nerr = alloc.SetMemoryFraction(1)", "", func() error {
		return errors.Join(t.free(a, b), t.alloc.EmptyCache(), t.alloc.SetMemoryFraction(1))
	})
}

func (t *tour) streams() {
	t.chapter("4. Two streams", "Work on a stream runs in order, and Free does not wait for it: what is freed serves the same stream, behind the work that used it. "+
		"If another stream uses a block, the allocator must be told.")
	var other device.Stream
	finish := func() {}
	var a, b, c memory.Block
	t.step("a, err := alloc.Alloc(12*device.MiB, stream)\nother, err := dev.NewStream()\n// ... a kernel on other reads a ...\nerr = alloc.RecordStream(a, other)", "The block is the first stream's, and the other one works with it.", func() (err error) {
		if a, err = t.take('A', t.alloc, 12*mib, t.stream); err != nil {
			return err
		}
		if other, err = t.Device.NewStream(); err != nil {
			return err
		}
		if finish, err = work(t.Device, other); err != nil {
			return err
		}
		return t.alloc.RecordStream(a, other)
	})
	ended := false
	defer func() { // if the tour ends before the work does
		if other != nil {
			if !ended {
				finish()
			}
			t.err = errors.Join(t.err, other.Close())
		}
	}()
	t.step("err = alloc.Free(a)", "The small letter: nobody holds the block, but the kernel may still read it, so it serves nobody yet.", func() error { return t.free(a) })
	t.step("b, err := alloc.Alloc(12*device.MiB, stream)", "It is not reused: the driver was asked for more.", func() (err error) {
		b, err = t.take('B', t.alloc, 12*mib, t.stream)
		return err
	})
	t.step("// ... the kernel ends ...\nc, err := alloc.Alloc(12*device.MiB, stream)", "Alloc looks whether streams have come past the place. Now the block serves again.", func() (err error) {
		finish()
		ended = true
		if err = other.Synchronize(t.Interrupt()); err != nil {
			return err
		}
		c, err = t.take('C', t.alloc, 12*mib, t.stream)
		return err
	})
	t.step("err = alloc.Free(b) // and c\nerr = alloc.EmptyCache()", "", func() error { return errors.Join(t.free(b, c), t.alloc.EmptyCache()) })
}

func (t *tour) pools() {
	t.chapter("5. A private pool with a limit", "Memory set apart: for a tenant, or for what must not be mixed with the rest.")
	pool := t.alloc.NewPool(memory.PoolLimit(16 * mib))
	closed := false
	defer func() {
		if !closed {
			t.err = errors.Join(t.err, pool.Release())
		}
	}()
	var a, b memory.Block
	t.step("pool := alloc.NewPool(memory.PoolLimit(16*device.MiB))\na, err := pool.Alloc(12*device.MiB, stream)", "", func() (err error) {
		a, err = t.take('A', pool, 12*mib, t.stream)
		return err
	})
	t.fails("_, err = pool.Alloc(12*device.MiB, stream)", "The tenant has met its limit.", memory.ErrLimit, func() error {
		_, err := t.take('?', pool, 12*mib, t.stream)
		return err
	})
	t.step("b, err := alloc.Alloc(12*device.MiB, stream)", "All others have not.", func() (err error) {
		b, err = t.take('B', t.alloc, 12*mib, t.stream)
		return err
	})
	t.step("err = pool.Free(a)\nerr = alloc.Free(b)\nerr = pool.Close()", "A closed pool gives its memory back.", func() error {
		closed = true
		return errors.Join(t.free(a, b), pool.Close())
	})
	t.step("err = alloc.EmptyCache()", "", t.alloc.EmptyCache)
}

func (t *tour) end() {
	if t.err != nil {
		return
	}
	s := t.alloc.Stats()
	t.print("\n%s\n\n", t.pen.strong("The end"))
	t.print("%s\n", wrapped(fmt.Sprintf("Allocated now: %d bytes; at most: %s. Reserved now: %d bytes; at most: %s. Blocks handed out: %d, given back: %d. Requests that failed: %d.",
		s.AllocatedBytes.All.Current, device.FormatBytes(uint64(s.AllocatedBytes.All.Peak)), s.ReservedBytes.All.Current, device.FormatBytes(uint64(s.ReservedBytes.All.Peak)),
		s.Allocation.All.Allocated, s.Allocation.All.Freed, s.NumOOMs), ""))
	if s.AllocatedBytes.All.Current != 0 {
		t.err = fmt.Errorf("%d bytes are allocated at the end of the tour", s.AllocatedBytes.All.Current)
	}
}
