package memory

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// recordingStream is one of a device that can be captured and says nothing of that but what a stream says.
type recordingStream struct {
	device.Stream
	captured, waits int
}

type recordedGraph struct{}

func (recordedGraph) Instantiate() (device.GraphExec, error) { return recordedGraph{}, nil }
func (recordedGraph) Launch(device.Stream) error             { return nil }
func (recordedGraph) Close() error                           { return nil }

func (s *recordingStream) BeginCapture() error { s.captured = 1; return nil }
func (s *recordingStream) EndCapture() (device.Graph, error) {
	s.captured = 0
	return recordedGraph{}, nil
}
func (s *recordingStream) CaptureID() uint64 { return uint64(s.captured) }
func (s *recordingStream) Synchronize(ctx context.Context) error {
	s.waits += s.captured
	return s.Stream.Synchronize(ctx)
}

// onRecordingStream is an allocator of a device that has such a stream, and what takes blocks there.
func onRecordingStream(t *testing.T, conf string) (*Caching, *recordingStream, func(bytes uint64) Block) {
	dev := sim.New(8 * gib)
	c, err := ParseConfig(conf)
	require.NoError(t, err)
	a, err := New(dev, c)
	require.NoError(t, err)
	s := &recordingStream{Stream: dev.DefaultStream()}
	return a, s, func(bytes uint64) Block {
		b, err := a.Alloc(bytes, s)
		require.NoError(t, err)
		return b
	}
}

// Pages are not moved in a capture, for which the work on its stream would have to end: also where only the stream knows of it.
func TestCaptureGraph_MovesNoPages(t *testing.T) {
	a, s, take := onRecordingStream(t, compacting102)
	var kept []Block
	g, err := a.CaptureGraph(s, func() error {
		x := take(100 * mib)
		kept = []Block{take(mib)}
		if err := a.Free(x); err != nil {
			return err
		}
		kept = append(kept, take(120*mib))
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, s.waits)
	for _, b := range kept {
		require.NoError(t, a.Free(b))
	}
	require.NoError(t, g.Close())
	require.NoError(t, a.Close())
}
