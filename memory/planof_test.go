package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlan_KnowsWhoseItIsAndWhetherItWasClosed(t *testing.T) {
	r := newRig(t, 64*mib, "")
	p, err := r.a.NewPlan()
	require.NoError(t, err)
	require.Same(t, r.a, p.Allocator())
	require.False(t, p.Closed())
	require.NoError(t, p.Close())
	require.Same(t, r.a, p.Allocator())
	require.True(t, p.Closed())
	next, err := r.a.NewPlan()
	require.NoError(t, err)
	require.True(t, p.Closed())
	require.False(t, next.Closed())
	require.NoError(t, next.Close())
	for _, none := range []*Plan{nil, new(Plan)} {
		require.Nil(t, none.Allocator())
		require.True(t, none.Closed())
	}
}
