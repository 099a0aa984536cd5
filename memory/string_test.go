package memory

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestString_OfAllocators(t *testing.T) {
	r := newRig(t, gib, "")
	id := r.dev.ID().String()
	require.Equal(t, "caching allocator of "+id, r.a.String())
	require.Equal(t, fmt.Sprintf("{%s}", r.a), fmt.Sprintf("%v", struct{ Allocator Allocator }{r.a}))
	direct := NewDirect(r.dev)
	require.Equal(t, "direct allocator of "+id, direct.String())
	caching, err := New(r.dev, Config{})
	require.NoError(t, err)
	for _, a := range []interface {
		fmt.Stringer
		Close() error
	}{direct, caching} {
		open := a.String()
		require.NoError(t, a.Close())
		require.Equal(t, open+", closed", a.String())
	}
	for _, zero := range []fmt.Stringer{new(Caching), new(Direct), new(Async), new(Pool)} {
		require.Contains(t, zero.String(), " (nil)")
	}
}
