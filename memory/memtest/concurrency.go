package memtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
)

var concurrencyTests = []test{
	{"GoroutinesMayShareStreams", testGoroutines},
	{"AnyGoroutineMayFree", testFreeElsewhere},
}

const (
	goroutines = 16
	operations = 120 // of each
)

// testGoroutines lets goroutines allocate, use and free at once on a few streams. It is for the race detector; content is
// looked at where there is any.
func testGoroutines(f *fixture) {
	var wg sync.WaitGroup
	problems := make(chan error, goroutines)
	for g := range goroutines {
		wg.Go(func() {
			if err := f.worker(uint64(g)); err != nil {
				problems <- err
			}
		})
	}
	wg.Wait()
	close(problems)
	for err := range problems {
		require.NoError(f.t, err)
	}
	f.verify() // nothing is in use
	require.NoError(f.t, f.alloc.EmptyCache())
	f.verify()
}

// worker is one goroutine of testGoroutines. It keeps a few blocks, each with a byte of its own at both ends.
func (f *fixture) worker(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 3))
	var live []*held
	for i := range operations {
		s := f.streams[rng.IntN(numStreams)]
		switch n := len(live); {
		case n < 6 && rng.IntN(2) == 0:
			h := &held{bytes: randomSize(rng) % (4 * device.MiB), stream: s, seed: byte(seed)*16 + byte(i)}
			var err error
			if h.block, err = f.alloc.Alloc(h.bytes, s); errors.Is(err, memory.ErrOutOfMemory) || h.bytes == 0 {
				continue
			}
			if err = errors.Join(err, f.write(h)); err != nil {
				return err
			}
			live = append(live, h)
		case n > 0 && rng.IntN(8) == 0:
			if err := f.alloc.RecordStream(live[rng.IntN(n)].block, s); err != nil {
				return err
			}
		case n > 0:
			h := live[n-1]
			live = live[:n-1]
			if err := errors.Join(f.compare(h), f.drop(h, rng)); err != nil {
				return err
			}
		case rng.IntN(20) == 0:
			if err := f.alloc.EmptyCache(); err != nil {
				return err
			}
		}
	}
	for _, h := range live {
		if err := errors.Join(f.compare(h), f.alloc.Free(h.block)); err != nil {
			return err
		}
	}
	return nil
}

// drop frees a block, now or later.
func (f *fixture) drop(h *held, rng *rand.Rand) error {
	if rng.IntN(10) == 0 {
		f.alloc.FreeLater(h.block)
		_, err := f.alloc.Alloc(1<<61, h.stream) // any Alloc frees what is queued; this one gets nothing
		if !errors.Is(err, memory.ErrOutOfMemory) {
			return fmt.Errorf("2 EiB were allocated, error %w", err)
		}
		return nil
	}
	return f.alloc.Free(h.block)
}

// write and compare are mark and requireContent for goroutines, which must not end the test.
func (f *fixture) write(h *held) error {
	if !f.storage {
		return h.stream.Fill(h.block.Ptr(), 0, h.block.Size())
	}
	return errors.Join(h.stream.CopyToDevice(h.block.Ptr(), h.pattern()), h.stream.CopyToDevice(h.last(), h.pattern()))
}

func (f *fixture) compare(h *held) error {
	if !f.storage {
		return nil
	}
	got := make([]byte, min(edge, h.bytes))
	if err := h.stream.CopyToHost(got, h.last()); err != nil {
		return err
	}
	if !bytes.Equal(got, h.pattern()) {
		return fmt.Errorf("block of %d bytes: want %x, got %x", h.bytes, h.pattern(), got)
	}
	return nil
}

// testFreeElsewhere frees in another goroutine than the one that allocated.
func testFreeElsewhere(f *fixture) {
	blocks := make(chan memory.Block, 8)
	failed := make(chan error, 1)
	go func() {
		var err error
		for b := range blocks {
			err = errors.Join(err, f.alloc.Free(b))
		}
		failed <- err
	}()
	for i := range 200 {
		b, err := f.alloc.Alloc(uint64(i+1)*1000, f.streams[i%numStreams])
		require.NoError(f.t, err)
		blocks <- b
	}
	close(blocks)
	require.NoError(f.t, <-failed)
	f.verify()
}
