//go:build linux || darwin

package driver

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// libc is a library that every system has, with functions that stand for the driver's.
func libc(t testing.TB, names map[Func]string) *Library {
	t.Helper()
	file := map[string]string{"linux": "libc.so.6", "darwin": "/usr/lib/libSystem.B.dylib"}[runtime.GOOS]
	handle, err := OpenLibrary(file)
	require.NoError(t, err)
	l := &Library{path: file}
	for f, name := range names {
		l.funcs[f] = Symbol(handle, name)
		require.NotZero(t, l.funcs[f], name)
	}
	return l
}

const compare, format = MemcpyDtoDAsync, LaunchKernel

func TestBatch_PassesUpTo24Arguments(t *testing.T) {
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		t.Skip("variadic functions have a convention of their own there")
	}
	l := libc(t, map[Func]string{format: "snprintf"})
	text := "%ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld\x00"
	for _, args := range []int{1, 2, 3, 4, 9, 20, 21} {
		b := l.Batch()
		buffer := make([]byte, 200)
		list := []uintptr{b.Bytes(buffer), uintptr(len(buffer)), b.Bytes([]byte(text[:4*args-1] + "\x00"))}
		for i := range args {
			list = append(list, uintptr(i+1))
		}
		b.Add(format, list...)
		f, r := b.Run()
		require.Equal(t, format, f)
		got := string(buffer[:r])
		require.Len(t, fields(got), args)
		for i, field := range fields(got) {
			require.Equal(t, i+1, field, got)
		}
		b.Release()
	}
}

// fields reads numbers separated by spaces.
func fields(s string) (list []int) {
	n := 0
	for _, c := range s + " " {
		if c == ' ' {
			list, n = append(list, n), 0
			continue
		}
		n = n*10 + int(c-'0')
	}
	return list
}

func TestBatch_StopsAtTheFirstCallThatFails(t *testing.T) {
	l := libc(t, map[Func]string{compare: "memcmp", format: "memcmp"})
	b := l.Batch()
	defer b.Release()
	x, y, z := b.Bytes([]byte("same")), b.Bytes([]byte("same")), b.Bytes([]byte("else"))
	b.Add(compare, x, y, 4)
	b.Add(compare, y, x, 4)
	f, r := b.Run()
	require.Equal(t, compare, f)
	require.Equal(t, Success, r)
	require.Equal(t, 2, b.Done())

	b.Reset()
	b.Add(compare, x, y, 4)
	b.Add(format, x, z, 4)
	b.Add(compare, x, y, 4)
	f, r = b.Run()
	require.Equal(t, format, f)
	require.NotEqual(t, Success, r)
	require.Equal(t, 1, b.Done())
}

func TestBatch_ResumesBehindTheCallThatFailed(t *testing.T) {
	l := libc(t, map[Func]string{compare: "memcmp", format: "memcmp"})
	b := l.Batch()
	defer b.Release()
	x, y, z := b.Bytes([]byte("same")), b.Bytes([]byte("same")), b.Bytes([]byte("else"))
	for range 2 {
		b.Reset()
		b.Add(compare, x, y, 4)
		b.Add(format, x, z, 4) // fails
		b.Add(compare, y, x, 4)
		b.Add(format, z, x, 4) // fails
		require.Equal(t, 4, b.Len())
		for _, at := range []int{1, 3} {
			run := b.Run
			if at == 3 {
				run = b.Resume
			}
			f, r := run()
			require.Equal(t, format, f)
			require.NotEqual(t, Success, r)
			require.Equal(t, at, b.Done())
			require.Equal(t, 4, b.Len())
		}
		_, r := b.Resume()
		require.Equal(t, Success, r)
		require.Equal(t, 4, b.Done())
	}
}

func TestBatch_FindsItsOutParametersWhereTheDriverWroteThem(t *testing.T) {
	l := libc(t, map[Func]string{compare: "memcpy"}) // returns its destination, so it looks like a failure
	b := l.Batch()
	defer b.Release()
	for i := range maxOut {
		b.Reset()
		b.Add(compare, b.Out(i), b.Bytes([]byte{byte(i + 1), 2, 3, 4, 5, 6, 7, 8}), 8)
		b.keeps = 0
		b.Run()
		require.Equal(t, uint64(0x0807060504030201+i), b.Value(i))
	}
	b.Out(0)
	require.Zero(t, b.Value(0), "asking for the address clears it")
}

func TestBatch_ParamsHasTheAddressesOfTheParameters(t *testing.T) {
	l := libc(t, map[Func]string{compare: "memcpy"})
	b := l.Batch()
	defer b.Release()
	array := b.Params([]uint64{10, 20, 21, 30}, []uint16{0, 1, 3})
	for i, want := range []uint64{10, 20, 30} {
		b.Reset()
		b.Add(compare, b.Out(0), array+uintptr(8*i), 8)
		b.Run()
		address := b.Value(0)
		b.Reset()
		b.Add(compare, b.Out(1), uintptr(address), 8)
		b.Run()
		require.Equal(t, want, b.Value(1))
	}
}

func TestBatch_ManyGoroutinesDoNotMeet(t *testing.T) {
	l := libc(t, map[Func]string{compare: "memcmp"})
	var group sync.WaitGroup
	failures := make([]int, 64)
	for g := range failures {
		group.Go(func() {
			for i := range 200 {
				b := l.Batch()
				x := b.Bytes([]byte{byte(g), byte(i)})
				b.Add(compare, x, b.Bytes([]byte{byte(g), byte(i)}), 2)
				b.Add(compare, x, b.Bytes([]byte{byte(g), byte(i + 1)}), 2)
				if _, r := b.Run(); r == Success || b.Done() != 1 {
					failures[g]++
				}
				b.Release()
			}
		})
	}
	group.Wait()
	require.Equal(t, make([]int, 64), failures)
}

func BenchmarkBatch_TwoCalls(b *testing.B) {
	l := libc(b, map[Func]string{compare: "memcmp"})
	b.ReportAllocs()
	for b.Loop() {
		batch := l.Batch()
		batch.Add(compare, batch.Out(0), batch.Out(1), 8)
		batch.Add(compare, batch.Out(0), batch.Out(1), 8)
		batch.Run()
		batch.Release()
	}
}
