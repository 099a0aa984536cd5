package sim

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

func malloc(t *testing.T, d *Device, bytes uint64) device.Ptr {
	t.Helper()
	p, err := d.Malloc(bytes)
	require.NoError(t, err)
	return p
}

func reserve(t *testing.T, d *Device, bytes uint64) device.Ptr {
	t.Helper()
	p, err := d.Reserve(bytes)
	require.NoError(t, err)
	return p
}

func requireSegment(t *testing.T, d *Device, p device.Ptr, number int, offset uint64) {
	t.Helper()
	gotNumber, gotOffset, ok := d.Segment(p)
	require.True(t, ok)
	require.Equal(t, number, gotNumber)
	require.Equal(t, offset, gotOffset)
}

func TestAddresses_RiseWithSegmentNumbersAndAreNeverReused(t *testing.T) {
	d := New(64 << 20)
	last := device.Ptr(0)
	for number := range 100 {
		var p device.Ptr
		if number%3 == 2 {
			p = reserve(t, d, 4<<20)
			requireSegment(t, d, p.Add(5), number, 5)
			require.NoError(t, d.Unreserve(p))
		} else {
			p = malloc(t, d, uint64(number+1)*1000)
			requireSegment(t, d, p.Add(5), number, 5)
			require.NoError(t, d.Free(p))
		}
		require.Zero(t, uint64(p)%(2<<20))
		require.Greater(t, p, last)
		last = p
		_, err := d.Malloc(1 << 30)
		require.ErrorIs(t, err, device.ErrOutOfMemory, "what fails takes no number")
	}
	_, _, ok := d.Segment(last)
	require.False(t, ok)
}

func TestCapacity_CountsAllocationsInPiecesOf512(t *testing.T) {
	d := New(2048)
	p := malloc(t, d, 1)
	malloc(t, d, 513)
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.Equal(t, device.MemInfo{Free: 512, Total: 2048}, info)
	_, err = d.Malloc(513)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.ErrorContains(t, err, "513 bytes wanted, 512 of 2048 free")
	malloc(t, d, 512)
	_, err = d.Malloc(1)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.NoError(t, d.Free(p))
	malloc(t, d, 100)
	require.Equal(t, uint64(2048), d.Calls().BytesPeak)
}

func TestCapacity_IsExactForItsLastByte(t *testing.T) {
	d := New(1000) // not a multiple of 512
	_, err := d.Malloc(1000)
	require.ErrorIs(t, err, device.ErrOutOfMemory, "1000 bytes count as 1024")
	malloc(t, d, 512)
	_, err = d.Malloc(1)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
}

func TestCapacity_CountsMappedPagesAndNotReservedRanges(t *testing.T) {
	d := New(10 << 20)
	p := reserve(t, d, 1<<40)
	require.Zero(t, d.Calls().BytesNow)
	require.NoError(t, d.Map(p, 8<<20, 2<<20))
	require.Equal(t, uint64(8<<20), d.Calls().BytesNow)
	_, err := d.Malloc(3 << 20)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	require.ErrorIs(t, d.Map(p.Add(8<<20), 4<<20, 4<<20), device.ErrOutOfMemory)
	malloc(t, d, 2<<20)
	require.NoError(t, d.Unmap(p.Add(4<<20), 4<<20))
	require.Equal(t, uint64(6<<20), d.Calls().BytesNow)
	require.Equal(t, uint64(10<<20), d.Calls().BytesPeak)
}

func TestOccupy_TakesCapacityAway(t *testing.T) {
	d := New(10 << 20)
	malloc(t, d, 4<<20)
	d.Occupy(4 << 20)
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.Equal(t, device.MemInfo{Free: 2 << 20, Total: 10 << 20}, info)
	_, err = d.Malloc(3 << 20)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	d.Occupy(100 << 20)
	info, err = d.MemInfo()
	require.NoError(t, err)
	require.Zero(t, info.Free)
	d.Occupy(0)
	malloc(t, d, 6<<20)
}

func TestCopies_MustStayInsideLiveMemory(t *testing.T) {
	for name, d := range map[string]*Device{"automatic": New(1 << 30), "manual": New(1<<30, ManualStreams())} {
		s := d.DefaultStream()
		p := malloc(t, d, 1000)
		q := reserve(t, d, 8<<20)
		require.NoError(t, d.Map(q, 4<<20, 2<<20))
		require.NoError(t, s.Fill(p, 1, 1000), name)
		require.NoError(t, s.Fill(q, 1, 4<<20), "across pages of one range")
		for _, err := range []error{
			s.Fill(p, 1, 1001),
			s.Fill(p.Add(1000), 1, 1),
			s.CopyToDevice(p.Add(999), make([]byte, 2)),
			s.CopyToHost(make([]byte, 2), p.Add(999)),
			s.Copy(p, q.Add(4<<20-1), 2),
			s.Copy(q.Add(4<<20-1), p, 2),
			s.Fill(q.Add(4<<20), 1, 1),
			s.Fill(p, 1, 1<<64-1),
		} {
			require.ErrorIs(t, err, device.ErrInvalidValue, name)
			require.ErrorContains(t, err, "0x")
		}
		require.NoError(t, d.Free(p))
		require.ErrorIs(t, s.Fill(p, 1, 1), device.ErrInvalidValue, "use after free")
	}
}

func TestCopyToHost_GivesZeros(t *testing.T) {
	d := New(1 << 20)
	p := malloc(t, d, 8)
	b := []byte{1, 2, 3}
	require.NoError(t, d.DefaultStream().CopyToDevice(p, b))
	require.NoError(t, d.DefaultStream().CopyToHost(b, p))
	require.Equal(t, []byte{0, 0, 0}, b)
}

func TestAddressSpace_EndsWithAnError(t *testing.T) {
	d := New(1 << 63)
	reserve(t, d, 1<<61)
	_, err := d.Reserve(1 << 62)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	_, err = d.Malloc(1 << 62)
	require.ErrorIs(t, err, device.ErrOutOfMemory)
	malloc(t, d, 1<<30)
}

func TestOpen_MakesANewDeviceEachTime(t *testing.T) {
	a, err := device.Open("sim:3GiB")
	require.NoError(t, err)
	b, err := device.Open("sim")
	require.NoError(t, err)
	require.Equal(t, uint64(3<<30), a.Properties().TotalMemory)
	require.Equal(t, uint64(DefaultCapacity), b.Properties().TotalMemory)
	require.Equal(t, a.ID().Index+1, b.ID().Index)
	require.Equal(t, 1, device.Count(device.Sim))
}

func TestProcesses_AreThoseOfOccupyByAndThisOne(t *testing.T) {
	d := New(64 << 20)
	_, err := d.Processes()
	require.ErrorIs(t, err, device.ErrUnavailable)
	small, large := device.Process{PID: 7, Name: "editor", Memory: 1 << 20}, device.Process{PID: 8, Memory: 9 << 20}
	d.OccupyBy(small, large)
	all, err := d.Processes()
	require.NoError(t, err)
	require.Equal(t, []device.Process{large, small}, all)
	p, err := d.Malloc(4 << 20)
	require.NoError(t, err)
	all, err = d.Processes()
	require.NoError(t, err)
	require.Equal(t, device.Process{PID: os.Getpid(), Name: os.Args[0], Memory: 4 << 20}, all[1])
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.EqualValues(t, 50<<20, info.Free)
	require.NoError(t, d.Free(p))
	d.Occupy(1 << 20)
	_, err = d.Processes()
	require.ErrorIs(t, err, device.ErrUnavailable, "Occupy names nobody")
}
