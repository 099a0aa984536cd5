package devicetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func aliasing(t *testing.T, dev device.Device) device.PageAliasing {
	t.Helper()
	v, ok := dev.(device.PageAliasing)
	if !ok {
		t.Skip("pages cannot be mapped twice")
	}
	require.NotZero(t, v.Granularity())
	return v
}

func testAlias(s *suite, t *testing.T, dev device.Device) {
	v := aliasing(t, dev)
	page := v.Granularity()
	p, err := v.Reserve(3 * page)
	require.NoError(t, err)
	q, err := v.Reserve(3 * page)
	require.NoError(t, err)
	before := freeBytes(t, dev)
	require.NoError(t, v.Map(p, 2*page, page))
	require.NoError(t, v.Map(q.Add(page), page, page))
	require.NoError(t, v.Alias(q, p.Add(page)))
	require.NoError(t, v.Alias(q.Add(2*page), p))
	s.requireFree(t, dev, before-3*page) // the aliases take nothing
	stream := dev.DefaultStream()
	in := pattern(3, int(3*page))
	require.NoError(t, stream.CopyToDevice(q, in), "over all three pages")
	s.requireBytes(t, stream, q, in)
	s.requireBytes(t, stream, p.Add(page), in[:page])
	s.requireBytes(t, stream, p, in[2*page:])

	require.NoError(t, v.Unmap(p, 2*page))
	s.requireFree(t, dev, before-3*page) // the memory is there as long as an address has it
	s.requireBytes(t, stream, q, in)
	require.NoError(t, v.Alias(p.Add(2*page), q), "of what was an alias")
	require.NoError(t, v.Unmap(q, 3*page))
	s.requireFree(t, dev, before-page)
	s.requireBytes(t, stream, p.Add(2*page), in[:page])
	require.NoError(t, v.Unmap(p.Add(2*page), page))
	s.requireFree(t, dev, before)
	require.NoError(t, v.Unreserve(p))
	require.NoError(t, v.Unreserve(q))
}

func testAliasInvalid(s *suite, t *testing.T, dev device.Device) {
	v := aliasing(t, dev)
	g := v.Granularity()
	block := malloc(t, dev, 2*g)
	p, err := v.Reserve(6 * g)
	require.NoError(t, err)
	require.NoError(t, v.Map(p, 2*g, 2*g))
	before := freeBytes(t, dev)
	for name, err := range map[string]error{
		"of an allocation":      v.Alias(p.Add(2*g), block),
		"of what has no page":   v.Alias(p.Add(2*g), p.Add(4*g)),
		"of half a page":        v.Alias(p.Add(2*g), p.Add(g)),
		"at an odd address":     v.Alias(p.Add(2*g+g/2), p),
		"over itself":           v.Alias(p.Add(g), p),
		"beyond the range":      v.Alias(p.Add(5*g), p),
		"at what is not a page": v.Alias(block, p),
	} {
		require.ErrorIs(t, err, device.ErrInvalidValue, name)
	}
	s.requireFree(t, dev, before)
	require.NoError(t, v.Alias(p.Add(2*g), p))
	require.ErrorIs(t, v.Unmap(p.Add(3*g), g), device.ErrInvalidValue, "half of an alias")
	require.NoError(t, v.Unmap(p, 2*g))
	require.NoError(t, v.Unmap(p.Add(2*g), 2*g))
	require.NoError(t, v.Unreserve(p))
}
