package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
)

// hostFuzzer runs operations decoded from bytes on the host, where blocks have content and streams are goroutines. Each block
// is written on its stream; other streams read it after an event, and are recorded. Every reader, whenever it runs, must
// find what was written before it: a block that is reused too early, or overlaps another, shows as wrong bytes.
type hostFuzzer struct {
	t       *testing.T
	dev     *host.Device
	a       *Caching
	streams []device.Executor
	live    []*hostBlock
	made    byte
}

type hostBlock struct {
	block  Block
	stream device.Executor
	value  byte // what both ends are filled with
}

const hostEdge = 32 // bytes at each end

func newHostFuzzer(t *testing.T, conf string) *hostFuzzer {
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	f := &hostFuzzer{t: t, dev: host.New(host.Capacity(64*mib), host.CheckBounds())}
	f.a, err = New(f.dev, c)
	require.NoError(t, err)
	f.streams = append(f.streams, f.dev.DefaultStream().(device.Executor))
	for range 2 {
		s, err := f.dev.NewStream()
		require.NoError(t, err)
		f.streams = append(f.streams, s.(device.Executor))
	}
	return f
}

// ends are the two parts of a block that are looked at.
func (b *hostBlock) ends() [2][]byte {
	n := min(hostEdge, b.block.Size())
	return [2][]byte{host.Bytes(b.block.Ptr(), n), host.Bytes(b.block.Ptr().Add(b.block.Size()-n), n)}
}

func (b *hostBlock) write() error {
	for _, end := range b.ends() {
		for i := range end {
			end[i] = b.value
		}
	}
	return nil
}

func (b *hostBlock) read() error {
	for _, end := range b.ends() {
		for _, got := range end {
			if got != b.value {
				return fmt.Errorf("block of %d bytes: found %d, written was %d", b.block.Size(), got, b.value)
			}
		}
	}
	return nil
}

// step decodes and does one operation.
func (f *hostFuzzer) step(op, x, y byte) {
	f.t.Helper()
	s := f.streams[y%3]
	switch n := len(f.live); {
	case op < 120:
		block, err := f.a.Alloc(fuzzSize(x, y), s)
		if err != nil {
			require.ErrorIs(f.t, err, ErrOutOfMemory)
			break
		}
		f.made++
		b := &hostBlock{block, s, f.made}
		f.live = append(f.live, b)
		require.NoError(f.t, s.Submit("write", b.write))
	case op < 180 && n > 0:
		b := f.live[int(x)%n]
		f.live = slices.Delete(f.live, int(x)%n, int(x)%n+1)
		require.NoError(f.t, b.stream.Submit("last read", b.read))
		require.NoError(f.t, f.a.Free(b.block))
	case op < 230 && n > 0:
		f.readOn(f.live[int(x)%n], s)
	case op < 240:
		require.NoError(f.t, f.a.EmptyCache())
	case op < 250:
		c, err := ParseConfig(pairConfigs[int(x)%len(pairConfigs)])
		require.NoError(f.t, err)
		require.NoError(f.t, f.a.SetConfig(c))
	default:
		require.NoError(f.t, s.Synchronize(context.Background()), "a reader found something else")
	}
	require.NoError(f.t, f.a.check())
}

// readOn lets another stream read a block after what its own stream did so far.
func (f *hostFuzzer) readOn(b *hostBlock, s device.Executor) {
	f.t.Helper()
	e, err := f.dev.NewEvent()
	require.NoError(f.t, err)
	require.NoError(f.t, b.stream.Record(e))
	require.NoError(f.t, s.Wait(e))
	slow := f.made%4 == 0 // so that its stream lags behind, and who does not wait for it is too early
	require.NoError(f.t, s.Submit("read", func() error {
		for i := 0; slow && i < 2000; i++ {
			runtime.Gosched()
		}
		return b.read()
	}))
	require.NoError(f.t, f.a.RecordStream(b.block, s))
	require.NoError(f.t, e.Close())
}

func (f *hostFuzzer) finish() {
	f.t.Helper()
	for _, b := range f.live {
		require.NoError(f.t, b.stream.Submit("last read", b.read))
		require.NoError(f.t, f.a.Free(b.block))
	}
	require.NoError(f.t, f.a.check())
	require.NoError(f.t, f.dev.Synchronize(context.Background()), "a reader found something else")
	require.NoError(f.t, f.a.Close())
	count, bytes := f.dev.Live()
	require.Zero(f.t, count)
	require.Zero(f.t, bytes)
	require.NoError(f.t, f.dev.Close())
}

// No stream reads or writes a block before the work that used it has ended, whichever stream had the memory before.
func TestSharing_RandomProgramsOnTheHost(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 2
	}
	for i, conf := range stressSettings[len(stressSettings)-sharingSettings:] {
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			f := newHostFuzzer(t, conf)
			for range 300 {
				op := byte(rng.IntN(256))
				if op >= 230 && op < 250 && rng.IntN(4) != 0 { // the cache is emptied now and then; the settings stay
					op = 0
				}
				if op >= 240 && op < 250 {
					op = 235
				}
				f.step(op, byte(rng.IntN(256)), byte(rng.IntN(256)))
			}
			f.finish()
		}
	}
}

// Each three bytes are one operation, see hostFuzzer.step.
func FuzzCachingHost(f *testing.F) {
	for seed := range uint64(len(pairConfigs)) {
		f.Add(byte(seed), randomBytes(seed, 450))
	}
	f.Add(byte(0), []byte("\x00\x05\x01\x00\x02\x02\xb5\x00\x02\x7e\x00\x01\x00\x05\x01\xb6\x00\x01\x7f\x01\x00\xff\x00\x02"))
	f.Add(byte(6), []byte("\x00\x0f\x0f\x01\x0f\x10\xb5\x01\x02\x7e\x00\x01\xe8\x00\x00\x00\x0f\x11\xf0\x00\x00\x00\x05\x01"))
	f.Fuzz(func(t *testing.T, conf byte, ops []byte) {
		z := newHostFuzzer(t, pairConfigs[int(conf)%len(pairConfigs)])
		for ; len(ops) >= 3; ops = ops[3:] {
			z.step(ops[0], ops[1], ops[2])
		}
		z.finish()
	})
}
