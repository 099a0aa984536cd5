package replay_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/replay"
)

// stream is a stream that is part of a capture, if it has a number.
type stream struct {
	device.Capturer
	capture uint64
}

func (s *stream) CaptureID() uint64 { return s.capture }

// counter is a value that counts.
type counter struct{ fills, replays uint64 }

func (c *counter) Fill(words []uint64) {
	c.fills++
	for i := range words {
		words[i] = 10*c.fills + uint64(i)
	}
}

func (c *counter) Replayed() { c.replays++ }

func TestOn_IsTheRecordingOfTheStreamsCapture(t *testing.T) {
	first, joined, other := &stream{capture: 1 << 60}, &stream{capture: 1 << 60}, &stream{capture: 1<<60 + 1}
	require.Nil(t, replay.On(first))
	r := replay.Begin(first, 4096, 8)
	require.Same(t, r, replay.On(first))
	require.Same(t, r, replay.On(joined))
	require.Nil(t, replay.On(other))
	require.Nil(t, replay.On(&stream{}), "it runs")
	r.End()
	require.Nil(t, replay.On(first))
}

func TestWords_AreThoseOfTheKey(t *testing.T) {
	r := replay.Begin(&stream{capture: 1 << 61}, 4096, 8)
	defer r.End()
	a, b := new(counter), new(counter)
	at, err := r.Words("a", 2, func() replay.Value { return a })
	require.NoError(t, err)
	require.Equal(t, device.Ptr(4096), at)
	again, err := r.Words("a", 2, func() replay.Value { t.Fatal("made twice"); return nil })
	require.NoError(t, err)
	require.Equal(t, at, again)
	at, err = r.Words("b", 3, func() replay.Value { return b })
	require.NoError(t, err)
	require.Equal(t, device.Ptr(4096+16), at)
	require.Equal(t, []uint64{10, 11, 10, 11, 12}, r.Fill())
	require.Equal(t, []uint64{20, 21, 20, 21, 22}, r.Fill())
	r.Replayed()
	require.Equal(t, counter{2, 1}, *a)

	require.NoError(t, r.Refused())
	_, err = r.Words("c", 4, func() replay.Value { return a })
	require.ErrorIs(t, err, replay.ErrRoom)
	require.ErrorIs(t, r.Refused(), replay.ErrRoom)
	require.Error(t, r.Refuse(errors.New("later")))
	require.ErrorIs(t, r.Refused(), replay.ErrRoom, "the first reason counts")
}

func TestRecording_UndoesInReverseAndWatches(t *testing.T) {
	r := replay.Begin(&stream{capture: 1 << 62}, 0, 0)
	defer r.End()
	var order []int
	r.IfFailed(func() { order = append(order, 1) })
	r.IfFailed(func() { order = append(order, 2) })
	r.Failed()
	r.Failed()
	require.Equal(t, []int{2, 1}, order)
	same := true
	r.Watch(func() bool { return same })
	require.True(t, r.Current())
	same = false
	require.False(t, r.Current())
}

func TestPrepared_StreamsBringHomeWhatIsThere(t *testing.T) {
	s := new(stream)
	replay.Prepared(s).AtEnd("nobody", func() { t.Fatal("of no stream") })
	p := replay.Prepare(s)
	require.Same(t, p, replay.Prepared(s))
	require.Nil(t, replay.Prepared(new(stream)))
	calls := 0
	for range 2 {
		p.AtEnd("key", func() { calls++ })
	}
	p.End()
	require.Equal(t, 1, calls)
	require.Nil(t, replay.Prepared(s))
}
