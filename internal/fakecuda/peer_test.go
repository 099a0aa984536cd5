//go:build linux && amd64

package fakecuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeer_AccessIsAskedForAndEnabled(t *testing.T) {
	c := load(t)
	c.lib.Devices(2)
	c.ok(c.Init(0))
	one, zero := c.enter(1), c.enter(0)
	var can int32
	c.ok(c.CanAccessPeer(&can, 0, 1))
	require.Equal(t, int32(1), can)
	c.ok(c.EnablePeer(one, 0))
	c.is(704, c.EnablePeer(one, 0))
	c.ok(c.DisablePeer(one))
	c.is(705, c.DisablePeer(one))
	c.is(invalidContext, c.EnablePeer(zero, 0))
	c.lib.Set("peer", "0")
	c.ok(c.CanAccessPeer(&can, 0, 1))
	require.Zero(t, can)
	c.is(217, c.EnablePeer(one, 0))
}

func TestPeer_CopiesGoBetweenDevices(t *testing.T) {
	c := load(t)
	c.lib.Devices(2)
	c.ok(c.Init(0))
	one := c.enter(1)
	q := c.alloc(100)
	zero := c.enter(0)
	p, s := upload(c, []byte{1, 2, 3}), c.stream()
	c.ok(c.PeerAsync(q, one, p, zero, 3, s))
	c.ok(c.StreamSynchronize(s))
	require.Equal(t, []byte{1, 2, 3}, c.read(q, 3))
	c.is(invalidValue, c.PeerAsync(q, zero, p, zero, 3, s))
	c.found("the destination is on another device")
}
