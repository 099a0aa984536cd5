package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// pair runs the same operations on Caching and on naive, and compares them after each one.
type pair struct {
	*rig
	naive *naive
	live  []pairBlock
}

type pairBlock struct {
	block Block
	naive *naiveBlock
}

func newPair(t testing.TB, capacity uint64, conf string) *pair {
	t.Helper()
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	p := &pair{rig: newRig(t, capacity, conf), naive: newNaive(capacity, c)}
	return p
}

func (p *pair) allocBoth(bytes uint64, stream int) {
	p.t.Helper()
	b, err := p.tryAlloc(bytes, stream)
	want := p.naive.alloc(bytes, stream)
	if want == nil {
		require.ErrorIs(p.t, err, ErrOutOfMemory)
		return
	}
	require.NoError(p.t, err)
	require.Equal(p.t, place{want.seg.number, want.offset}, p.place(b))
	require.Equal(p.t, want.size, b.Size())
	p.live = append(p.live, pairBlock{b, want})
}

func (p *pair) freeBoth(i int) {
	p.t.Helper()
	p.free(p.live[i].block)
	p.naive.free(p.live[i].naive)
	p.live = slices.Delete(p.live, i, i+1)
}

func (p *pair) freeLaterBoth(i int) {
	p.t.Helper()
	p.a.FreeLater(p.live[i].block)
	p.naive.freeLater(p.live[i].naive)
	p.live = slices.Delete(p.live, i, i+1)
}

func (p *pair) recordBoth(i, stream int) {
	p.t.Helper()
	p.record(p.live[i].block, stream)
	p.naive.record(p.live[i].naive, stream)
}

func (p *pair) limitBoth(bytes uint64) {
	p.a.SetMemoryLimit(bytes)
	p.naive.limit = bytes
}

func (p *pair) confBoth(text string) {
	p.t.Helper()
	c, err := ParseConfig(text)
	require.NoError(p.t, err)
	require.NoError(p.t, p.a.SetConfig(c))
	p.naive.setConfig(c)
}

func (p *pair) resetPeaksBoth() {
	p.a.ResetPeakStats()
	s := &p.naive.stats
	for _, arr := range s.arrays() {
		arr.each(func(st *Stat) { st.Peak = st.Current })
	}
	s.OversizeAllocations.Peak, s.OversizeSegments.Peak = s.OversizeAllocations.Current, s.OversizeSegments.Current
}

// compare asserts that the two look the same from outside.
func (p *pair) compare() {
	p.t.Helper()
	log := p.takeLog()
	require.Equal(p.t, p.naive.log, log, "driver calls")
	p.naive.log = nil
	require.Equal(p.t, p.naive.picture(), p.a.picture())
	require.Equal(p.t, p.naive.stats, p.a.Stats())
}

// pairConfigs are settings that change which rules apply.
var pairConfigs = []string{
	"",
	"max_split_size_mb:20",
	"max_split_size_mb:32,max_non_split_rounding_mb:24",
	"roundup_power2_divisions:[1:2,4:4,>:8]",
	"garbage_collection_threshold:0.5",
	"large_segment_size_mb:12,garbage_collection_threshold:0.3,max_split_size_mb:20",
	"expandable_segments:True",
	"expandable_segments:True,garbage_collection_threshold:0.6,max_split_size_mb:24",
}

// step does one operation chosen by four bytes, which is what fuzzing feeds it.
func (p *pair) step(op, x, y, z byte) {
	p.t.Helper()
	stream := int(y % 3)
	switch n := len(p.live); {
	case op < 110:
		p.allocBoth(pairSize(x, z), stream)
	case op < 170 && n > 0:
		p.freeBoth(int(x) % n)
	case op < 190 && n > 0:
		p.freeLaterBoth(int(x) % n)
	case op < 220 && n > 0:
		p.recordBoth(int(x)%n, stream)
	case op < 240:
		p.complete(stream)
		p.naive.completeStream(stream)
	case op < 244:
		p.empty()
		p.naive.releaseAll()
	case op < 248:
		p.limitBoth(uint64(x%5) * 24 * mib)
	case op < 252:
		p.confBoth(pairConfigs[int(x)%len(pairConfigs)])
	case op < 254:
		p.resetPeaksBoth()
	}
	p.compare()
}

// pairSize is a request of any magnitude, often at a border between two rules.
func pairSize(x, z byte) uint64 {
	base := []uint64{
		1, 512, 4096, 300 * kib, mib, mib + 512, 3 * mib, 10*mib - 512, 10 * mib, 19 * mib, 20 * mib, 24 * mib, 41 * mib,
	}
	return base[int(x)%len(base)] + uint64(z)*[]uint64{0, 1, 512, 5000, 20000}[int(x/16)%5]
}

// Placement, statistics and driver calls equal the model's under every setting, and when settings change under way.
func TestPolicy_EqualsTheNaiveModel(t *testing.T) {
	for i, conf := range pairConfigs {
		for seed := range uint64(3) {
			if testing.Short() && seed < 2 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", conf, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				p := newPair(t, 130*mib, conf)
				if seed > 0 {
					p.limitBoth(100 * mib)
				}
				for range 500 {
					op := byte(rng.IntN(256))
					if op >= 244 && op < 252 && seed < 2 { // settings change only with the last seed
						continue
					}
					p.step(op, byte(rng.IntN(256)), byte(rng.IntN(256)), byte(rng.IntN(256)))
				}
			})
		}
	}
}

// Peaks over several streams are kept by leases and settled late; they are exact all the same.
func TestPeaks_AreExactOverStreams(t *testing.T) {
	seeds, steps := uint64(6), 1500
	if testing.Short() {
		seeds, steps = 2, 600
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 11))
		p := newPair(t, 64*gib, "")
		for range steps {
			n := len(p.live)
			switch op := rng.IntN(100); {
			case op < 50 || n == 0:
				p.allocBoth(1+rng.Uint64N(uint64(1)<<(8+rng.IntN(16))), rng.IntN(5))
			case op < 80:
				p.freeBoth(rng.IntN(n))
			case op < 90:
				p.freeLaterBoth(rng.IntN(n))
			case op < 95:
				p.recordBoth(rng.IntN(n), rng.IntN(5))
			case op < 98:
				s := rng.IntN(5)
				p.complete(s)
				p.naive.completeStream(s)
			case op < 99:
				p.resetPeaksBoth()
			default:
				require.Equal(t, p.naive.stats, p.a.Stats()) // reading settles too, so it is done seldom
			}
		}
		require.Equal(t, p.naive.stats, p.a.Stats())
	}
}

// Each four bytes are one operation, see pair.step.
func FuzzPolicy(f *testing.F) {
	f.Add(byte(3), randomBytes(3, 400))
	f.Add(byte(0), []byte("\x00\x01\x00\x00\x00\x04\x01\x00\x80\x00\x00\x00\x00\x06\x01\x07"))
	f.Add(byte(6), []byte("\x00\x0c\x00\x00\x00\x0b\x00\x10\x80\x00\x00\x00\xf0\x00\x00\x00\x00\x08\x00\x00"))
	f.Add(byte(1), []byte("\x00\x0c\x00\x00\x00\x0c\x00\x00\x80\x00\x00\x00\x80\x00\x00\x00"+
		"\x00\x0b\x00\x10\xf5\x04\x00\x00\x00\x0c\x01\x00"))
	f.Fuzz(func(t *testing.T, conf byte, ops []byte) {
		p := newPair(t, 130*mib, pairConfigs[int(conf)%len(pairConfigs)])
		for ; len(ops) >= 4; ops = ops[4:] {
			p.step(ops[0], ops[1], ops[2], ops[3])
		}
	})
}
