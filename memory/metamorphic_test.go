package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

// This test runs random programs: several goroutines, each with streams of its own that it opens and closes, allocate, free,
// record, checkpoint, route, change settings and limits, on the host and on the simulated device, while driver calls fail and
// callbacks call the allocator or panic. Whatever happens, blocks in use never overlap, on the host the bytes at their ends stay
// what the holder wrote, for whoever reads them in stream order, the invariants of doc.go hold, and in the end all memory is
// back. The same programs run on the allocators that cache nothing.
//
// Plain test runs take half a second; CISTERN_STRESS=5m runs longer (.ci/run stress). The seed of a failure is in its message, and
// CISTERN_STRESS_SEED runs programs from that seed on: goroutines meet in another order each time, so it may take several.

const shortStress = 500 * time.Millisecond

func TestMetamorphic_RandomPrograms(t *testing.T) {
	long, first := stressTime(t), stressSeed(t)
	t.Logf("programs from seed %d, for %v", first, long)
	end := time.Now().Add(long)
	runs := 0
	for seed := first; time.Now().Before(end) && !t.Failed(); seed++ {
		for _, kind := range programKinds {
			for _, place := range []string{"host", "sim"} {
				if !runProgram(t, seed, kind, place) {
					return
				}
				runs++
			}
		}
	}
	t.Logf("%d programs", runs)
}

func stressTime(t *testing.T) time.Duration {
	text := os.Getenv("CISTERN_STRESS")
	if text == "" {
		return shortStress
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "CISTERN_STRESS")
	return d
}

// stressSeed is the seed of the first program: another one each time when there is time to look at many.
func stressSeed(t *testing.T) uint64 {
	if text := os.Getenv("CISTERN_STRESS_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "CISTERN_STRESS_SEED")
		return seed
	}
	if os.Getenv("CISTERN_STRESS") == "" {
		return 1
	}
	return uint64(time.Now().UnixNano()) / 1000
}

// programKinds are the allocators; most of the time is for the caching one. "sharing" is that one with settings by which streams share memory.
var programKinds = []string{"caching", "caching", "sharing", "sharing", "direct", "async"}

// errStress is what callbacks panic with.
var errStress = errors.New("panic of the stress test")

// program is one run.
type program struct {
	t         *testing.T
	name      string
	place     stressPlace
	allocator Allocator
	caching   *Caching // allocator, or nil
	pools     []*Pool  // with sources that panic, shared by all
	settings  []string // that it changes between
	held      heldRanges
	chance    lockedRand
	failed    bool
	mu        sync.Mutex // of failed
}

const (
	programWorkers = 4
	programSteps   = 120
)

// runProgram runs one program and reports whether all was well.
func runProgram(t *testing.T, seed uint64, kind, place string) bool {
	p := &program{t: t, name: fmt.Sprintf("seed %d, %s on %s", seed, kind, place), chance: newLockedRand(seed)}
	p.place = openPlace(place, &p.chance)
	p.open(kind)
	var wg sync.WaitGroup
	for g := range programWorkers {
		wg.Go(func() { newWorker(p, rand.New(rand.NewPCG(seed, uint64(g)))).run() })
	}
	wg.Wait()
	if !p.failed {
		p.finish()
	}
	return !p.failed
}

// open makes the allocator, with all that calls back.
func (p *program) open(kind string) {
	p.t.Helper()
	var err error
	switch kind {
	case "direct":
		p.allocator = NewDirect(p.place.driver())
	case "async":
		p.allocator, err = NewAsync(&asyncDriver{VirtualDriver: p.place.driver(), dev: p.place.device()}, Config{})
	default:
		p.settings = stressSettings
		if kind == "sharing" {
			p.settings = stressSettings[len(stressSettings)-sharingSettings:]
		}
		c, failed := ParseConfig(p.settings[0])
		require.NoError(p.t, failed)
		p.caching, err = New(p.place.driver(), c)
		p.allocator = p.caching
	}
	require.NoError(p.t, err, p.name)
	a := p.caching
	if a == nil {
		return
	}
	if p.chance.one(2) {
		require.NoError(p.t, a.RecordHistory(HistoryOptions{MaxEntries: 100, Enabled: HistoryMode(p.chance.below(2))}))
	}
	if p.chance.one(2) {
		a.OnLowMemory(func() bool { return p.called(true) })
		a.OnOOM(func(*OOMError) { p.called(true) })
	}
	p.pools = []*Pool{a.NewPool(PoolSource(stressSource{p})), a.NewPool(PoolLimit(20 * mib)), a.NewPool(PoolUseOnOOM(), PoolNoSplit())}
}

// called is what callbacks do: nothing, panic, or call the allocator.
func (p *program) called(mayAlloc bool) bool {
	a := p.caching
	switch p.chance.below(12) {
	case 0:
		panic(errStress) // invariant: the workers recover it
	case 1:
		_ = a.EmptyCache()
	case 2:
		a.Stats()
	case 3:
		a.Snapshot()
	case 4:
		if mayAlloc {
			b, err := a.Alloc(1000, p.place.device().DefaultStream())
			if err == nil {
				p.must(a.Free(b))
			}
		}
	case 5:
		p.must(a.check())
	}
	return true
}

// stressSource is a pool's source that panics now and then.
type stressSource struct{ p *program }

func (s stressSource) Malloc(n uint64) (device.Ptr, error) {
	s.p.called(true)
	return s.p.place.driver().Malloc(n)
}

func (s stressSource) Free(ptr device.Ptr) error {
	if s.p.chance.one(12) {
		panic(errStress) // invariant: the workers recover it
	}
	return s.p.place.driver().Free(ptr)
}

// must notes an error that must not be. It may be called by any goroutine.
func (p *program) must(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.failed {
		p.failed = true
		p.t.Errorf("%s: %v", p.name, err)
	}
}

// tolerate is must for calls that may fail as the driver does, or for lack of memory.
func (p *program) tolerate(err error) {
	var address *AddressError
	for _, known := range []error{errInjected, ErrOutOfMemory, device.ErrOutOfMemory, ErrCheckpoint, ErrPoolReleased} {
		if errors.Is(err, known) {
			return
		}
	}
	if !errors.As(err, &address) {
		p.must(err)
	}
}

// try calls f, which may panic as callbacks do, and reports whether it did.
func (p *program) try(f func()) (panicked bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != errStress {
				panic(r) // invariant: somebody else's is a failure
			}
			panicked = true
		}
	}()
	f()
	return false
}

// finish gives all back and looks whether it is.
func (p *program) finish() {
	p.place.setFaults(0)
	p.chance.quiet.Store(true)
	for _, pool := range p.pools {
		p.must(pool.Close())
	}
	for range 2 { // the first frees what FreeLater queued
		p.must(p.allocator.EmptyCache())
	}
	if p.caching != nil {
		p.must(p.caching.check())
		if n := len(*p.caching.shards.Load()); n > (programWorkers*workerStreams+1)*(1+len(p.pools)+2*programWorkers) {
			p.must(fmt.Errorf("%d shards are left", n))
		}
	}
	s := p.allocator.Stats()
	if s.Allocation.All.Current != 0 || s.ActiveBytes.All.Current != 0 {
		p.must(fmt.Errorf("%d blocks, %d bytes are in use at the end", s.Allocation.All.Current, s.ActiveBytes.All.Current))
	}
	p.must(p.allocator.Close())
	p.must(p.held.empty())
	p.must(p.place.close())
}
