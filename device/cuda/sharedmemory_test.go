package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/cuda/cudatest"
	"github.com/cistern-ml/cistern/internal/fakecuda"
)

// endsPTX is a kernel whose 256 threads write their number to the first and, in reverse, to the last 256 bytes of n bytes of shared
// memory, and hand out what another thread has written at either end.
const endsPTX = `.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 sh[];
.visible .entry ends(.param .u64 out, .param .u32 n)
{
	.reg .b16 %h<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [out];
	cvta.to.global.u64 %rd2, %rd1;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	cvt.u16.u32 %h1, %r2;
	mov.u32 %r3, sh;
	add.s32 %r4, %r3, %r2;
	st.shared.u8 [%r4], %h1;
	add.s32 %r5, %r3, %r1;
	sub.s32 %r6, %r5, %r2;
	st.shared.u8 [%r6+-1], %h1;
	bar.sync 0;
	xor.b32 %r7, %r2, 255;
	add.s32 %r8, %r3, %r7;
	ld.shared.u8 %h1, [%r8];
	sub.s32 %r8, %r5, %r7;
	ld.shared.u8 %h2, [%r8+-1];
	shl.b32 %r2, %r2, 1;
	cvt.u64.u32 %rd3, %r2;
	add.s64 %rd4, %rd2, %rd3;
	st.global.u8 [%rd4], %h1;
	st.global.u8 [%rd4+1], %h2;
	ret;
}
`

// sharedToTheLimit gives blocks all the shared memory that they can have, and asks for one byte more.
func sharedToTheLimit(t *testing.T, d *cuda.Device) {
	limit := d.Properties().SharedMemory
	t.Logf("%d bytes", limit)
	require.Greater(t, limit, 48<<10)
	m, err := d.LoadModule([]byte(endsPTX))
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	found, err := m.Kernel("ends")
	require.NoError(t, err)
	k := found.(*cuda.Kernel)
	s, err := d.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	p, err := d.Malloc(512)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Free(p)) }()
	launch := func(bytes int) error {
		params := new(device.Params)
		params.Ptr(p).Int32(int32(bytes))
		shape := device.LaunchShape{Grid: device.Dim3{X: 300}, Block: device.Dim3{X: 256}, Shared: uint32(bytes)}
		return k.LaunchAs("ends", s, shape, params)
	}
	right := func(bytes int) {
		t.Helper()
		require.NoError(t, s.Fill(p, 0, 512))
		require.NoError(t, launch(bytes), "%d bytes", bytes)
		got := make([]byte, 512)
		require.NoError(t, s.CopyToHost(got, p))
		for i := range 256 {
			require.Equal(t, [2]byte{byte(255 - i), byte(255 - i)}, [2]byte(got[2*i:]), "%d bytes, thread %d", bytes, i)
		}
	}
	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, device.ErrInvalidValue)
		var typed *device.Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, d.ID(), typed.Device)
	}
	right(512)
	right(48 << 10)
	refused(launch(48<<10 + 1)) // what nobody has asked for
	right(1 << 10)
	for _, bytes := range []int{99 << 10, limit - 1, limit} {
		require.NoError(t, k.SetMaxShared(bytes))
		right(bytes)
		refused(launch(bytes + 1))
		right(bytes)
	}
	refused(k.SetMaxShared(limit + 1))
	right(limit)
	blocks, err := k.Occupancy(256, limit)
	require.NoError(t, err)
	require.Equal(t, 1, blocks, "of a processor")
}

func TestKernel_SharesMemoryToTheLimit(t *testing.T) {
	for _, compute := range []string{"80", "86", "89", "90"} {
		t.Run(compute, func(t *testing.T) {
			r := cudatest.New(t, 1, func(l *fakecuda.Library) {
				l.Set("ptx", "1")
				l.Set("races", "1")
				l.Set("compute", compute)
			})
			r.Expect("bytes of dynamic shared memory, but at most")
			r.Expect("cuFuncSetAttribute")
			sharedToTheLimit(t, r.Devices[0])
		})
	}
}

func TestGPU_KernelsShareMemoryToTheLimit(t *testing.T) { sharedToTheLimit(t, cudatest.GPU(t)) }
