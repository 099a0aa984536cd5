package memprof

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/memory"
)

// sampler is a device that is looked at, at times that the test says.
type sampler struct {
	watched
	now time.Time
}

// look takes n samples, a second apart.
func (s *sampler) look(n int) {
	for range n {
		s.now = s.now.Add(time.Second)
		s.sample(s.now, new(memory.Stats))
	}
}

// gaps are the microseconds before each sample of which it is said that nobody looked.
func (s *sampler) gaps() (list []int64) {
	for i, one := range s.samples {
		if one[4] != 0 {
			list = append(list, one[0]-s.samples[i-1][0])
		}
	}
	return list
}

// However long somebody looks, there are at most an hour's samples: older ones become fewer, and none of the time is forgotten.
func TestSample_KeepsAnHourAndTheFirst(t *testing.T) {
	s := &sampler{now: time.Unix(1000, 0)}
	s.look(1)
	first := s.samples[0]
	s.look(10 * maxSamples)
	require.LessOrEqual(t, len(s.samples), maxSamples)
	require.Greater(t, len(s.samples), maxSamples/2)
	require.Equal(t, first, s.samples[0])
	require.Equal(t, s.now.UnixMicro(), s.samples[len(s.samples)-1][0])
	require.Empty(t, s.gaps(), "what is left out was looked at")
}

// A gap stays one, a little wider, also when samples beside it are left out.
func TestSample_GapsOutliveTheSamplesBesideThem(t *testing.T) {
	s := &sampler{now: time.Unix(1000, 0)}
	s.look(11)
	s.now = s.now.Add(99 * time.Second)
	s.look(10)
	require.Equal(t, []int64{100e6}, s.gaps())
	s.now = s.now.Add(299 * time.Second)
	s.look(maxSamples + 100)
	got := s.gaps()
	require.Len(t, got, 2)
	require.InDelta(t, 100e6, got[0], 3e6)
	require.InDelta(t, 300e6, got[1], 3e6)
}
