package devicetest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var copyTests = []test{
	{"WhatGoesInComesOut", testRoundTrip},
	{"CopyWithinTheDevice", testCopyWithin},
	{"FillSetsExactlyTheRange", testFill},
	{"SourceMayChangeAfterCopyToDevice", testSourceMayChange},
	{"ZeroBytesAreFineAnywhere", testZeroBytes},
	{"NullAddressIsInvalid", testNullAddress},
	{"OverlappingCopyIsInvalid", testOverlap},
}

// streams are the kinds of streams that a device has.
func streams(t *testing.T, dev device.Device) map[string]device.Stream {
	return map[string]device.Stream{"default": dev.DefaultStream(), "new": newStream(t, dev)}
}

func testRoundTrip(s *suite, t *testing.T, dev device.Device) {
	for name, stream := range streams(t, dev) {
		for _, n := range []int{1, 3, 4096, 1<<20 + 5} {
			p := malloc(t, dev, uint64(n)+64)
			in := pattern(n, n)
			require.NoError(t, stream.CopyToDevice(p.Add(13), in), name)
			s.requireBytes(t, stream, p.Add(13), in)
		}
	}
}

func testCopyWithin(s *suite, t *testing.T, dev device.Device) {
	const n = 100_000
	for name, stream := range streams(t, dev) {
		a, b := malloc(t, dev, n), malloc(t, dev, n)
		in := pattern(5, n)
		require.NoError(t, stream.CopyToDevice(a, in), name)
		require.NoError(t, stream.Fill(b, 9, n))
		require.NoError(t, stream.Copy(b.Add(100), a.Add(7), n-200))
		want := bytes.Repeat([]byte{9}, n)
		copy(want[100:], in[7:7+n-200])
		s.requireBytes(t, stream, b, want)
		require.NoError(t, stream.Copy(a.Add(n/2), a, n/2), "touching ranges do not overlap")
		s.requireBytes(t, stream, a, append(in[:n/2:n/2], in[:n/2]...))
	}
}

func testFill(s *suite, t *testing.T, dev device.Device) {
	const n = 10_000
	for _, stream := range streams(t, dev) {
		p := malloc(t, dev, n)
		require.NoError(t, stream.Fill(p, 0xAB, n))
		require.NoError(t, stream.Fill(p.Add(1), 0, 4000))
		require.NoError(t, stream.Fill(p.Add(5000), 0x17, 1))
		want := bytes.Repeat([]byte{0xAB}, n)
		clear(want[1:4001])
		want[5000] = 0x17
		s.requireBytes(t, stream, p, want)
	}
}

func testSourceMayChange(s *suite, t *testing.T, dev device.Device) {
	const n = 1 << 20
	for _, stream := range streams(t, dev) {
		p := malloc(t, dev, n)
		source := pattern(1, n)
		require.NoError(t, stream.CopyToDevice(p, source))
		clear(source)
		s.requireBytes(t, stream, p, pattern(1, n))
	}
}

func testZeroBytes(_ *suite, t *testing.T, dev device.Device) {
	for _, stream := range streams(t, dev) {
		require.NoError(t, stream.CopyToDevice(0, nil))
		require.NoError(t, stream.CopyToHost(nil, 0))
		require.NoError(t, stream.Copy(0, 0, 0))
		require.NoError(t, stream.Fill(0, 1, 0))
	}
}

func testNullAddress(_ *suite, t *testing.T, dev device.Device) {
	p := malloc(t, dev, 4096)
	for _, stream := range streams(t, dev) {
		requireError(t, dev, stream.CopyToDevice(0, make([]byte, 1)), device.ErrInvalidValue)
		requireError(t, dev, stream.CopyToHost(make([]byte, 1), 0), device.ErrInvalidValue)
		requireError(t, dev, stream.Copy(0, p, 1), device.ErrInvalidValue)
		requireError(t, dev, stream.Copy(p, 0, 1), device.ErrInvalidValue)
		requireError(t, dev, stream.Fill(0, 1, 1), device.ErrInvalidValue)
	}
}

func testOverlap(_ *suite, t *testing.T, dev device.Device) {
	p := malloc(t, dev, 4096)
	for _, stream := range streams(t, dev) {
		requireError(t, dev, stream.Copy(p, p, 4096), device.ErrInvalidValue)
		requireError(t, dev, stream.Copy(p, p.Add(10), 11), device.ErrInvalidValue)
		requireError(t, dev, stream.Copy(p.Add(10), p, 11), device.ErrInvalidValue)
		require.NoError(t, stream.Copy(p.Add(10), p, 10))
	}
}
