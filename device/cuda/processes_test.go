package cuda_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// managed is a rig of two devices whose driver is the management library too.
func managed(t *testing.T, settings ...func(*fakecuda.Library)) *cudatest.Rig {
	t.Setenv("CISTERN_NVML_LIBRARY", fakecuda.Build(t))
	return cudatest.New(t, 2, settings...)
}

func TestProcesses_AreListedWithNamesAndMemoryByDevice(t *testing.T) {
	r := managed(t, func(l *fakecuda.Library) {
		l.Process(1, 41, 3<<20, "/usr/bin/train: it")
		l.Process(1, 42, 5<<20, "")
		l.Process(0, 43, 1<<20, "Xorg")
	})
	d := r.Devices[1]
	p := r.Malloc(d, 4<<20)
	all, err := d.Processes()
	require.NoError(t, err)
	require.Equal(t, []device.Process{
		{PID: 42, Memory: 5 << 20}, {PID: os.Getpid(), Memory: 4 << 20}, {PID: 41, Name: "/usr/bin/train: it", Memory: 3 << 20},
	}, all)
	info, err := d.MemInfo()
	require.NoError(t, err)
	require.EqualValues(t, cudatest.Capacity-12<<20, info.Free)
	require.NoError(t, d.Free(p))
	all, err = r.Devices[0].Processes()
	require.NoError(t, err)
	require.Equal(t, []device.Process{{PID: 43, Name: "Xorg", Memory: 1 << 20}}, all)
}

func TestProcesses_ThereMayBeManyOfThem(t *testing.T) {
	r := managed(t)
	for pid := range 100 {
		r.Process(0, 1000+pid, uint64(pid+1), "many")
	}
	all, err := r.Devices[0].Processes()
	require.NoError(t, err)
	require.Len(t, all, 100)
	require.Equal(t, device.Process{PID: 1099, Name: "many", Memory: 100}, all[0])
}

func TestProcesses_AreUnavailableWithoutTheManagementLibraryOrWhenItFails(t *testing.T) {
	for _, f := range []string{"nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetGraphicsRunningProcesses_v3"} {
		t.Run(f, func(t *testing.T) {
			r := managed(t)
			r.Fail(f, 0, 999)
			_, err := r.Devices[0].Processes()
			require.ErrorIs(t, err, device.ErrUnavailable)
			require.ErrorContains(t, err, "999")
		})
	}
	missing := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	other := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(other, []byte("no library"), 0o644))
	for _, path := range []string{missing, other, "libm.so.6"} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r := managed(t)
			t.Setenv("CISTERN_NVML_LIBRARY", path)
			_, err := r.Devices[0].Processes()
			require.ErrorIs(t, err, device.ErrUnavailable)
			require.ErrorContains(t, err, filepath.Base(path))
		})
	}
}

func TestProcesses_WithoutNamesAreListedAllTheSame(t *testing.T) {
	r := managed(t, func(l *fakecuda.Library) { l.Process(0, 41, 3<<20, "train") })
	r.Fail("nvmlSystemGetProcessName", 0, 4)
	all, err := r.Devices[0].Processes()
	require.NoError(t, err)
	require.Equal(t, []device.Process{{PID: 41, Memory: 3 << 20}}, all)
	r.Fail("cuDeviceGetUuid_v2", 0, 999)
	_, err = r.Devices[0].Processes()
	require.Error(t, err)
}

// The entries of the list have another size with some drivers, under the same name of the function.
func TestProcesses_AreReadWhateverTheDriversEntriesAreLike(t *testing.T) {
	for _, stride := range []string{"16", "24", "32"} {
		for _, n := range []int{1, 2, 3, 32, 33} {
			r := managed(t)
			r.Set("process_stride", stride)
			var want []device.Process
			for i := range n {
				r.Process(0, 1000+i, uint64(n-i)<<20, "p")
				want = append(want, device.Process{PID: 1000 + i, Name: "p", Memory: uint64(n-i) << 20})
			}
			all, err := r.Devices[0].Processes()
			require.NoError(t, err)
			require.Equal(t, want, all, "stride %s", stride)
		}
	}
}
