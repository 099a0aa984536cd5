package memory

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// fuzzer runs operations decoded from bytes on an allocator whose device is small and fails when told to, next to a model of
// the blocks in use. Policy is not modelled, see FuzzPolicy for that: what counts here is that, whatever fails, blocks do not
// overlap, are memory over their whole length, and nothing is lost.
type fuzzer struct {
	*rig
	pools  [2]*Pool // made at the first use
	noted  [2]*PoolCheckpoint
	live   []Block
	faults map[sim.CallKind]byte // how many calls from now one fails
}

func newFuzzer(t testing.TB) *fuzzer {
	f := &fuzzer{rig: newRig(t, 96*mib, ""), faults: map[sim.CallKind]byte{}}
	f.dev.Inject(func(c sim.Call) error {
		if f.faults[c.Kind] == 0 {
			return nil
		}
		if f.faults[c.Kind]--; f.faults[c.Kind] > 0 {
			return nil
		}
		return errInjected
	})
	return f
}

// fuzzFaults are the calls that can be made to fail.
var fuzzFaults = []sim.CallKind{
	sim.CallMalloc, sim.CallFree, sim.CallMemInfo, sim.CallReserve, sim.CallUnreserve, sim.CallPageCreate, sim.CallPageMap,
	sim.CallPageUnmap, sim.CallStreamQuery, sim.CallStreamSync, sim.CallEventCreate, sim.CallEventRecord, sim.CallEventQuery,
	sim.CallEventSync, sim.CallStreamWait,
}

// step decodes and does one operation.
func (f *fuzzer) step(op, x, y byte) {
	f.t.Helper()
	stream := int(y % 3)
	switch n := len(f.live); {
	case op < 90:
		b, err := f.a.Alloc(fuzzSize(x, y), f.stream(stream))
		f.took(b, err, stream)
	case op < 100:
		b, err := f.pool(int(x%2)).Alloc(fuzzSize(x, y), f.stream(stream))
		f.took(b, err, stream)
	case op < 103:
		f.checkpoint(int(x % 2))
	case op < 107:
		f.restore(int(x%2), f.noted[y%2])
	case op < 160 && n > 0:
		f.drop(int(x)%n, y%8 == 0)
	case op < 190 && n > 0:
		f.record(f.live[int(x)%n], stream)
	case op < 215:
		f.complete(stream)
	case op < 220:
		f.tolerate(f.a.EmptyCache())
	case op < 224:
		f.tolerate(f.pool(int(x % 2)).EmptyCache())
	case op < 228:
		f.dropPool(int(x % 2))
	case op < 236:
		c, err := ParseConfig(pairConfigs[int(x)%len(pairConfigs)])
		require.NoError(f.t, err)
		require.NoError(f.t, f.a.SetConfig(c))
	case op < 242:
		f.a.SetMemoryLimit(uint64(x%4) * 30 * mib)
	case op < 252:
		f.faults[fuzzFaults[int(x)%len(fuzzFaults)]] = y%4 + 1
	default:
		f.dev.Occupy(uint64(x%4) * 20 * mib)
	}
	f.check()
}

// fuzzSize is of all magnitudes, in steps that make sizes meet again.
func fuzzSize(x, y byte) uint64 {
	return (uint64(x%16) + 1) << (5 + y%20)
}

// took enters a block into the model.
func (f *fuzzer) took(b Block, err error, stream int) {
	f.t.Helper()
	if err != nil {
		f.tolerate(err)
		return
	}
	for _, o := range f.live {
		if o.Ptr() < b.Ptr().Add(b.Size()) && b.Ptr() < o.Ptr().Add(o.Size()) {
			require.Fail(f.t, "blocks overlap", "%d bytes at %#x and %d at %#x", b.Size(), uintptr(b.Ptr()), o.Size(), uintptr(o.Ptr()))
		}
	}
	require.NoError(f.t, f.stream(stream).Fill(b.Ptr(), 0, b.Size()), "the block is not all memory")
	f.live = append(f.live, b)
}

// drop frees a block.
func (f *fuzzer) drop(i int, later bool) {
	b := f.live[i]
	f.live = slices.Delete(f.live, i, i+1)
	if later {
		f.a.FreeLater(b)
		return
	}
	require.NoError(f.t, f.a.Free(b))
	require.ErrorIs(f.t, f.a.Free(b), ErrDoubleFree)
}

func (f *fuzzer) pool(i int) *Pool {
	if f.pools[i] == nil {
		f.pools[i] = f.a.NewPool()
	}
	return f.pools[i]
}

// checkpoint notes the layout of a pool, for a later restore.
func (f *fuzzer) checkpoint(i int) {
	c, err := f.pool(i).Checkpoint()
	if err == nil {
		f.noted[i] = c
	} else {
		require.ErrorIs(f.t, err, ErrCheckpoint)
	}
}

// restore puts a layout back, perhaps one of another pool: the model's blocks of the pool are replaced by those that live then.
func (f *fuzzer) restore(i int, c *PoolCheckpoint) {
	f.t.Helper()
	if c == nil {
		return
	}
	p := f.pool(i)
	r, err := p.Restore(c)
	if err != nil {
		require.ErrorIs(f.t, err, ErrCheckpoint)
		return
	}
	var freed, live []device.Ptr
	f.live = slices.DeleteFunc(f.live, func(b Block) bool {
		if b.b.shard.pool != p {
			return false
		}
		freed = append(freed, b.Ptr())
		require.ErrorIs(f.t, f.a.Free(b), ErrDoubleFree)
		return true
	})
	require.ElementsMatch(f.t, freed, r.Freed)
	for _, b := range r.Live {
		f.took(b, nil, int(b.b.shard.id()))
		live = append(live, b.Ptr())
	}
	require.ElementsMatch(f.t, live, p.Allocated())
	for _, l := range c.segments {
		for _, b := range l.blocks {
			require.Equal(f.t, b.state == stateAllocated, slices.Contains(live, b.ptr))
		}
	}
}

// dropPool releases a pool; blocks of it may be in use still.
func (f *fuzzer) dropPool(i int) {
	if f.pools[i] != nil {
		f.tolerate(f.pools[i].Close())
		f.pools[i] = nil
	}
}

// tolerate accepts the errors that an operation may return here.
func (f *fuzzer) tolerate(err error) {
	f.t.Helper()
	if err != nil && !errors.Is(err, errInjected) && !errors.Is(err, ErrOutOfMemory) {
		require.NoError(f.t, err)
	}
}

// finish frees everything; what the device refused until now it takes now.
func (f *fuzzer) finish() {
	f.t.Helper()
	clear(f.faults)
	for len(f.live) > 0 {
		f.drop(0, false)
	}
	for i := range f.pools {
		f.dropPool(i)
	}
	f.check()
}

// randomBytes are operations for a fuzz target's seeds: long histories, so that plain test runs go deep as well.
func randomBytes(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 13))
	ops := make([]byte, n)
	for i := range ops {
		ops[i] = byte(rng.Uint32())
	}
	return ops
}

// Each three bytes are one operation, see fuzzer.step.
func FuzzCaching(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(randomBytes(seed, 900))
	}
	f.Add([]byte("\x00\x05\x11\x00\x02\x05\xa5\x01\x01\x6e\x00\x01\xc8\x00\x01\x00\x05\x11"))
	f.Add([]byte("\xe4\x06\x00\x00\x05\x12\x00\x0b\x13\xf2\x07\x01\x6e\x00\x01\xd8\x00\x00\x00\x0f\x13"))
	f.Add([]byte("\x5a\x05\x11\x5b\x05\x11\x6e\x00\x01\xdc\x01\x00\xe0\x00\x00\x00\x0f\x14"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		z := newFuzzer(t)
		for ; len(ops) >= 3; ops = ops[3:] {
			z.step(ops[0], ops[1], ops[2])
		}
		z.finish()
	})
}

// Whatever the text: an error, or settings whose own text gives the same settings.
func FuzzParseConfig(f *testing.F) {
	for _, s := range everySetting {
		f.Add(s.text)
	}
	f.Add("max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:True,")
	f.Add("roundup_power2_divisions:[[256:1]")
	f.Add("pinned_max_cached_size_mb:0.00000095367431640625,large_segment_size_mb:17592186044415.5")
	f.Add("a:[b,c:d],:,")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil {
			var ce *ConfigError
			require.ErrorAs(t, err, &ce)
			return
		}
		require.NoError(t, c.Validate())
		again, err := ParseConfig(c.String())
		require.NoError(t, err, "%q gives %q", text, c)
		require.Equal(t, c, again, "%q gives %q", text, c)
		a, err := New(&fakeDriver{}, c)
		require.NoError(t, err)
		require.Equal(t, device.ID{Kind: device.Sim}, a.Device())
	})
}
