package cuda_test

import (
	"encoding/binary"
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

// buildKernels compiles testdata/kernels.cc for the emulated driver.
func buildKernels(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"g++", "clang++", "clang++-19"} {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		out := filepath.Join(t.TempDir(), "kernels.so")
		text, err := exec.Command(name, "-O1", "-shared", "-fPIC", filepath.Join("testdata", "kernels.cc"), "-o", out).CombinedOutput()
		require.NoError(t, err, string(text))
		return out
	}
	t.Skip("no C++ compiler to build emulated kernels")
	return ""
}

// loadKernels returns the two kernels of testdata/kernels.cc.
func loadKernels(t *testing.T, r *cudatest.Rig) (combine, broken *cuda.Kernel) {
	t.Helper()
	r.LoadKernels(buildKernels(t))
	m, err := r.Devices[0].LoadModule([]byte(r.SkeletonPTX("combine", "broken")))
	require.NoError(t, err)
	t.Cleanup(func() {
		if r.Devices[0].Err() == nil {
			require.NoError(t, m.Close())
		}
	})
	kernels := map[string]*cuda.Kernel{}
	for _, name := range []string{"combine", "broken"} {
		k, err := m.Kernel(name)
		require.NoError(t, err)
		require.Equal(t, name, k.Name())
		kernels[name] = k.(*cuda.Kernel)
	}
	_, err = m.Kernel("absent")
	require.ErrorIs(t, err, device.ErrInvalidValue)
	require.ErrorContains(t, err, `kernel "absent"`)
	return kernels["combine"], kernels["broken"]
}

func floats(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestKernel_GetsItsParametersAndShape(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	combine, _ := loadKernels(t, r)
	s, x, y := r.Stream(d), r.Malloc(d, 64), r.Malloc(d, 64)
	require.NoError(t, s.CopyToDevice(x, floats(1, 2, 3, 4, 5)))
	require.NoError(t, s.Fill(y, 0, 64))
	var params device.Params
	launch := func() error {
		params.Reset().Ptr(y).Ptr(x).Int32(5).Words(math.Float64bits(2), 10|uint64(100)<<32).Float32(0.5).Int64(-1000)
		return combine.Launch(s, device.LaunchShape{Grid: device.Dim3{X: 3}, Block: device.Dim3{X: 2}}, &params)
	}
	require.NoError(t, launch())
	params.Reset() // it was copied
	got := make([]byte, 24)
	require.NoError(t, s.CopyToHost(got, y))
	require.Equal(t, floats(-887.5, -885.5, -883.5, -881.5, -879.5, 0), got)

	threads, err := combine.Attribute(cuda.FuncMaxThreads)
	require.NoError(t, err)
	require.Positive(t, threads)
	blocks, err := combine.Occupancy(128, 0)
	require.NoError(t, err)
	require.Positive(t, blocks)
	require.NoError(t, combine.SetMaxShared(64<<10))
	if !raceEnabled {
		require.Zero(t, testing.AllocsPerRun(20, func() { require.NoError(t, launch()) }))
	}
}

func TestKernel_IsNamedInTheErrorOfTheNextWait(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	_, broken := loadKernels(t, r)
	s := r.Stream(d)
	require.NoError(t, broken.Launch(s, device.LaunchShape{}, new(device.Params)))
	err := s.Synchronize(background)
	require.ErrorIs(t, err, device.ErrLaunch)
	require.ErrorContains(t, err, "cuda:0: broken: operation failed on the device: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
}

func TestKernel_RefusesWhatCannotBeRight(t *testing.T) {
	r := cudatest.New(t, 2)
	d := r.Devices[0]
	combine, _ := loadKernels(t, r)
	var params device.Params
	require.ErrorIs(t, combine.Launch(r.Stream(r.Devices[1]), device.LaunchShape{}, &params), device.ErrInvalidValue)
	for range device.MaxParams + 1 {
		params.Int32(0)
	}
	require.ErrorContains(t, combine.Launch(r.Stream(d), device.LaunchShape{}, &params), "more than 64 parameters")
	r.Expect("CUDA_ERROR_INVALID_IMAGE")
	_, err := d.LoadModule(nil)
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = d.LoadModule([]byte("no PTX at all"))
	require.ErrorIs(t, err, device.ErrInvalidValue)
	require.ErrorContains(t, err, "cuModuleLoadDataEx")
}

func TestKernel_SaysWhatItTakes(t *testing.T) {
	r := cudatest.New(t, 1)
	d := r.Devices[0]
	m, err := d.LoadModule([]byte(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry big() .maxntid 64, 1, 1 {\n" +
		".shared .align 4 .b8 s[48];\n.local .align 8 .b8 l[24];\nmov.u64 %rd1, s; mov.u64 %rd2, l; ret; }\n"))
	require.NoError(t, err)
	k, err := m.Kernel("big")
	require.NoError(t, err)
	usage, err := k.(device.MeasuredKernel).Usage()
	require.NoError(t, err)
	require.Equal(t, device.KernelUsage{Registers: 32, Shared: 48, Local: 24, MaxThreads: 64}, usage)
	r.Fail("cuFuncGetAttribute", 3, 999)
	_, err = k.(device.MeasuredKernel).Usage()
	require.ErrorContains(t, err, "kernel big")
	require.NoError(t, m.Close())
}
