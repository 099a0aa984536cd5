package nccl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/stretchr/testify/require"
)

// The emulation refuses what NCCL would take with undefined results, and says so.
func TestEmulation_FindsMisuse(t *testing.T) {
	add := func(r *rank, src, dst, count, op uintptr) (libnccl.Result, error) {
		return r.invoke(libnccl.AllReduce, src, dst, count, libnccl.Float32, op, r.handle, r.meeting.stream.Handle())
	}
	for finding, misuse := range map[string]func(r *rank, rig *cudatest.Rig, p uintptr) (libnccl.Result, error){
		"send buffer: ": func(r *rank, _ *cudatest.Rig, p uintptr) (libnccl.Result, error) {
			return add(r, p+512, p, 200, libnccl.Sum)
		},
		"the buffers overlap, and not as in place": func(r *rank, _ *cudatest.Rig, p uintptr) (libnccl.Result, error) {
			return add(r, p, p+16, 100, libnccl.Sum)
		},
		"not aligned to its type": func(r *rank, _ *cudatest.Rig, p uintptr) (libnccl.Result, error) {
			return add(r, p+2, p+2, 10, libnccl.Sum)
		},
		"operation 1 is not emulated": func(r *rank, _ *cudatest.Rig, p uintptr) (libnccl.Result, error) { return add(r, p, p, 10, 1) },
		"the current context is not the communicator's": func(r *rank, rig *cudatest.Rig, p uintptr) (libnccl.Result, error) {
			status, err := rig.Devices[1].CallForeign(r.lib.Address(libnccl.AllReduce), p, p, 10, libnccl.Float32, libnccl.Sum, r.handle,
				r.meeting.stream.Handle())
			return libnccl.Result(int32(status)), err
		},
		"the stream is not of the communicator's device": func(r *rank, rig *cudatest.Rig, p uintptr) (libnccl.Result, error) {
			return r.invoke(libnccl.AllReduce, p, p, 10, libnccl.Float32, libnccl.Sum, r.handle, rig.Stream(rig.Devices[1]).Handle())
		},
		"needs its other end in the same group": func(r *rank, _ *cudatest.Rig, p uintptr) (libnccl.Result, error) {
			return r.invoke(libnccl.Send, p, 10, libnccl.Float32, 0, r.handle, r.meeting.stream.Handle())
		},
		"this thread has begun no group": func(r *rank, _ *cudatest.Rig, _ uintptr) (libnccl.Result, error) {
			return r.invoke(libnccl.GroupEnd)
		},
	} {
		t.Run(finding, func(t *testing.T) {
			rig := cudatest.New(t, 2)
			rig.Expect(finding)
			c, err := Open(rig.Devices[0], Group{Size: 1}, Options{TimeLimit: patient, Library: rig.Path()})
			require.NoError(t, err)
			r, ok := c.(*rank)
			require.True(t, ok)
			p := rig.Malloc(rig.Devices[0], 1000)
			result, err := misuse(r, rig, uintptr(p))
			require.NoError(t, err)
			require.Contains(t, []libnccl.Result{libnccl.Argument, libnccl.Usage}, result)
			require.Contains(t, fmt.Sprint(rig.Findings()), finding)
			require.NoError(t, errors.Join(c.Close(), rig.Devices[0].Free(p)))
		})
	}
}

// Averages of floating types multiply by 1/n before they add, as in NCCL: that they are sums of thirds shows where n is no power of two.
func TestEmulation_HasNCCLsMean(t *testing.T) {
	third := float32(1) / 3
	fine(t, withGroup(t, 3, Options{TimeLimit: patient}, func(c comm.Comm, d *cuda.Device) error {
		b, err := buffer(d, 1)
		if err != nil {
			return err
		}
		s, got := d.DefaultStream(), make([]byte, 4)
		seven := binary.LittleEndian.AppendUint32(nil, math.Float32bits(7))
		if err := errors.Join(s.CopyToDevice(b.Ptr, seven), c.AllReduce(s, b, b, comm.Mean), s.CopyToHost(got, b.Ptr)); err != nil {
			return err
		}
		part := 7 * third
		want := float32(float32(part+part) + part)
		if have := math.Float32frombits(binary.LittleEndian.Uint32(got)); have != want {
			return fmt.Errorf("the mean of sevens is %v and not %v", have, want)
		}
		return d.Free(b.Ptr)
	}))
}

// A thread's group is forgotten with all else, and ends when its end fails: or nobody could open a communicator on that thread any more.
func TestEmulation_ForgetsGroups(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open := func(t *testing.T, f func(r *rank, rig *cudatest.Rig)) {
		rig := cudatest.New(t, 1)
		c, err := Open(rig.Devices[0], Group{Size: 1}, Options{TimeLimit: patient, Library: rig.Path()})
		require.NoError(t, err)
		f(c.(*rank), rig)
		require.NoError(t, c.Close())
	}
	begin := func(r *rank, _ *cudatest.Rig) {
		result, err := r.invoke(libnccl.GroupStart)
		require.NoError(t, err)
		require.Equal(t, libnccl.Success, result)
	}
	t.Run("left open", func(t *testing.T) { open(t, begin) })
	t.Run("another library", func(t *testing.T) { open(t, func(*rank, *cudatest.Rig) {}) })
	t.Run("its end fails", func(t *testing.T) {
		open(t, func(r *rank, rig *cudatest.Rig) {
			begin(r, rig)
			rig.Fail("ncclGroupEnd", 1, 2)
			result, err := r.invoke(libnccl.GroupEnd)
			require.NoError(t, err)
			require.Equal(t, libnccl.Result(2), result)
			again, err := Open(rig.Devices[0], Group{Size: 1}, Options{TimeLimit: patient, Library: rig.Path()})
			require.NoError(t, err)
			require.NoError(t, again.Close())
		})
	})
}

// deeper calls f with more of the stack in use.
func deeper(frames int, f func()) {
	var pad [64]byte
	if frames > 0 {
		deeper(frames-1, f)
	} else {
		f()
	}
	runtime.KeepAlive(&pad)
}

// What the library writes lies where no growing stack moves it: a goroutine's stack grows somewhere on the way to the call, wherever it was before.
func TestUniqueID_ArrivesOnAnyStack(t *testing.T) {
	rig := cudatest.New(t, 1)
	lib, err := libnccl.Open(rig.Path())
	require.NoError(t, err)
	for frames := range 200 {
		fine(t, together(4, func(int) error {
			var id [libnccl.UniqueIDBytes]byte
			var result libnccl.Result
			deeper(frames, func() { id, result = lib.UniqueID() })
			if result != libnccl.Success || string(id[:9]) != "fakenccl-" {
				return fmt.Errorf("%d frames deep: %v, %q", frames, result, id)
			}
			return nil
		}))
	}
}
