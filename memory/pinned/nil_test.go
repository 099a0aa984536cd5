package pinned

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/memory/internal/registry"
)

// What memory asks of what is registered.
var (
	_ registry.Pinned                        = (*Allocator)(nil)
	_ interface{ AddTo(s *memory.Snapshot) } = (*Allocator)(nil)
)

func TestNilAndZeroPinned_RefuseOrDoNothing(t *testing.T) {
	s := newRig(t, "").stream(0)
	for _, p := range []*Allocator{nil, {}} {
		var bad *memory.ArgumentError
		_, err := p.Alloc(8)
		for _, err := range []error{err, p.Free(Block{}), p.RecordStream(Block{}, s), p.EmptyCache(), p.SetConfig(memory.Config{}),
			p.RecordHistory(memory.HistoryOptions{})} {
			require.ErrorAs(t, err, &bad)
		}
		require.NoError(t, p.Close())
		require.Equal(t, Stats{}, p.Stats())
		require.False(t, p.HistoryEnabled())
		p.AddTo(nil)
		require.Contains(t, p.String(), "(nil)")
	}
}

// A block that lives for long and is used on streams that come and go knows those that are open.
func TestRecordStream_ForgetsClosedStreams(t *testing.T) {
	r := newRig(t, "")
	b := r.alloc(512)
	for range 20 {
		s, err := r.dev.NewStream()
		require.NoError(t, err)
		require.NoError(t, r.p.RecordStream(b, s))
		require.NoError(t, s.Close())
	}
	require.LessOrEqual(t, len(b.b.users), 1)
	r.free(b)
}

func TestRecordStream_AfterClose_SaysThatTheAllocatorWasClosed(t *testing.T) {
	r := newRig(t, "")
	b := r.alloc(512)
	require.ErrorIs(t, r.p.Close(), memory.ErrLeak)
	err := r.p.RecordStream(b, r.stream(1))
	require.ErrorIs(t, err, device.ErrClosed)
	require.ErrorIs(t, err, memory.ErrUseAfterFree)
}

func TestString_SaysWhenItIsClosed(t *testing.T) {
	dev := sim.New(mib)
	p, err := New(dev, memory.Config{})
	require.NoError(t, err)
	open := fmt.Sprint(p)
	require.Equal(t, "pinned allocator of "+dev.ID().String(), open)
	require.NoError(t, p.Close())
	require.Equal(t, open+", closed", fmt.Sprint(p))
}
