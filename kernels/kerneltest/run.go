package kerneltest

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/stretchr/testify/require"
)

// Option changes how the suite runs.
type Option func(*options)

type options struct {
	slack  float64
	stream device.Stream
	every  int
	small  bool
	but    []dtype.DType
	apart  uint64
	one    bool
	turn   int
}

// Slack multiplies the tolerated ulps of each operation: 1 if not given. Devices with approximate functions need more.
func Slack(factor float64) Option { return func(o *options) { o.slack = factor } }

// WithStream runs the suite on this stream instead of the default one.
func WithStream(s device.Stream) Option { return func(o *options) { o.stream = s } }

// Every runs only one in n cases of each operation, for further runs on a device that passed all of them.
func Every(n int) Option { return func(o *options) { o.every = n } }

// Small leaves out the cases that run however few others do, because only their sizes reach some path of a kernel. They are most of the
// time of a thin run. They stay for the types but.
func Small(but ...dtype.DType) Option {
	return func(o *options) { o.small, o.but = true, but }
}

// Apart puts so many bytes, a multiple of the device's pages, between the slices of tensors whose layout may have gaps, and runs no
// other cases: their offsets need more than 32 bits. The device has virtual memory, of which hardly any is mapped.
func Apart(bytes uint64) Option { return func(o *options) { o.apart = bytes } }

// OneType runs each operation on one of its types, the next one for the next turn: for further runs, and where full tests run them all.
func OneType(turn int) Option { return func(o *options) { o.one, o.turn = true, turn } }

// TypeOf is the type on which OneType runs an operation. Neighbours in the table have different ones.
func TypeOf(id op.ID, turn int) dtype.DType {
	types := id.Types()
	return types[(int(id)+turn)%len(types)]
}

func atLeastEvery(n int) Option { return func(o *options) { o.every = max(o.every, n) } }

// Run tests every operation, each in a subtest of its name.
func Run(t *testing.T, dev device.Device, opts ...Option) {
	for id := op.Invalid + 1; id.Valid(); id++ {
		t.Run(id.String(), func(t *testing.T) { TestOp(t, dev, id, opts...) })
	}
}

// TestOp tests one operation for all types that the specification asks for, each in a subtest of its name. With go test
// -short it runs one in 25 cases. A type for which
// the device has no kernel is skipped: that it may not be missing is for the test of known holes in package kernels.
func TestOp(t *testing.T, dev device.Device, id op.ID, opts ...Option) {
	if testing.Short() {
		opts = append(opts, atLeastEvery(25))
	}
	for _, d := range typesOf(id, opts) {
		t.Run(d.String(), func(t *testing.T) {
			if _, ok := kernels.Lookup(dev.ID().Kind, id, d); !ok {
				t.Skipf("no kernel for %s of %s on %s", id, d, dev.ID())
			}
			ran := 0
			err := Each(dev, id, d, func(_ int, run func() error) error {
				ran++
				return run()
			}, opts...)
			require.NoError(t, err)
			require.Positive(t, ran, "no cases")
		})
	}
}

func typesOf(id op.ID, opts []Option) []dtype.DType {
	var o options
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	if o.one {
		return []dtype.DType{TypeOf(id, o.turn)}
	}
	return id.Types()
}

// Each gives every case of an operation on a type to visit, which may run it and gets what is wrong with its results, until
// visit returns an error: Each returns that. Cases are numbered from 0; for the same options each is always the same.
func Each(dev device.Device, id op.ID, d dtype.DType, visit func(number int, run func() error) error, opts ...Option) (err error) {
	o := options{slack: 1, stream: dev.DefaultStream(), every: 1}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	r := &rig{stream: o.stream, slack: o.slack}
	if o.apart > 0 {
		if r.apart, err = newBanks(o.stream.Device(), o.apart); err != nil {
			return err
		}
	}
	defer func() {
		if closed := r.close(); err == nil {
			err = closed
		}
	}()
	m, number := newMaker(id, d), 0
	m.every, m.small = o.every, o.small && !slices.Contains(o.but, d)
	for c := range m.cases() {
		if r.apart != nil && !r.apart.stretch(c) {
			continue
		}
		if m.small && c.always {
			continue
		}
		if err := visit(number, func() error { return r.run(c) }); err != nil {
			return err
		}
		number++
	}
	return nil
}

// maker makes the cases of one operation on one type. Its random numbers depend on nothing else.
type maker struct {
	id    op.ID
	d     dtype.DType
	rng   *rand.Rand
	every int  // one in so many cases is made
	count int  // cases so far, made or not
	made  int  // cases that were made
	asked bool // whether the next case is one that was due
	small bool // whether cases that were not asked for are left out
}

func newMaker(id op.ID, d dtype.DType) *maker {
	h := fnv.New64a()
	h.Write([]byte(id.String() + d.String()))
	return &maker{id: id, d: d, rng: rand.New(rand.NewPCG(h.Sum64(), 1)), every: 1}
}

// due reports whether the next case is one to be made. Functions that make a large case ask it first, and return nil if not.
func (m *maker) due() bool {
	m.count++
	m.asked = (m.count-1)%m.every == 0
	return m.asked
}

// leavesOut reports whether the next case is one of those that Small leaves out. Functions that make a large one ask it before they compute
// what comes out.
func (m *maker) leavesOut() bool { return m.small && !m.asked && m.count > 0 }

// newCase begins a case; in one of three, whatever its shapes, all tensors are aligned, as an allocator's memory is. In every other
// one, strides that lead nowhere have odd values.
func (m *maker) newCase() *testCase {
	m.made++
	asked := m.asked
	m.asked = false
	return &testCase{call: op.Call{Op: m.id}, ulps: 1, aligned: m.count%3 == 0, odd: m.made%2 == 0, always: !asked && m.count > 0}
}
