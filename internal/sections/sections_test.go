package sections_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/internal/sections"
)

func TestMeter_CountsOuterSectionsByTheirPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &sections.Meter{Workers: 4}
		stop := sections.Watch(m)
		require.Same(t, m, sections.Watched())
		pause := func() { time.Sleep(4 * time.Millisecond) }
		m.Run(8, func() { sections.Watched().Run(2, pause) })
		m.Run(2, pause)
		stop()
		require.Nil(t, sections.Watched())
		require.Equal(t, 2, m.Count)
		require.Equal(t, 8*time.Millisecond, m.Alone)
		require.Equal(t, 3*time.Millisecond, m.Shared, "a quarter of the first, half of the second")
		require.Equal(t, 7*time.Millisecond, m.Bound(12*time.Millisecond))
	})
}
