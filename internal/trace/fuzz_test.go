package trace

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRead: whatever the input, Read returns a trace whose ids are in order, or an *Error; and a trace that is written and
// read again is the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(example))
	f.Add(zipped(f, example))
	f.Add([]byte("m\nm \nm  x \r\r\n#\n# \n"))
	f.Add([]byte("a 0 0 0\na 1 9223372036854775807 9223372036854775807\nf 1\nf 0"))
	f.Add([]byte("s 18446744073709551615 0"))
	f.Fuzz(func(t *testing.T, input []byte) {
		got, err := Read("fuzz", bytes.NewReader(input))
		if err != nil {
			var broken *Error
			require.ErrorAs(t, err, &broken)
			require.Nil(t, got)
			return
		}
		checkTrace(t, got)

		var text bytes.Buffer
		require.NoError(t, got.Write(&text))
		again, err := Read("fuzz", &text)
		require.NoError(t, err)
		require.Equal(t, withoutLines(got), withoutLines(again))
	})
}

// checkTrace proves what the replay relies on.
func checkTrace(t *testing.T, got *Trace) {
	require.NotEmpty(t, got.Events)
	live := map[int]bool{}
	allocs, line := 0, 0
	for _, e := range got.Events {
		require.Greater(t, e.Line, line)
		line = e.Line
		switch e.Kind {
		case Alloc:
			require.Equal(t, allocs, e.ID)
			live[e.ID] = true
			allocs++
		case Free:
			require.True(t, live[e.ID])
			delete(live, e.ID)
		case Record:
			require.True(t, live[e.ID])
		}
	}
	require.Equal(t, allocs, got.Allocs)
}

func withoutLines(t *Trace) *Trace {
	c := *t
	c.Events = append([]Event(nil), t.Events...)
	for i := range c.Events {
		c.Events[i].Line = 0
	}
	return &c
}
