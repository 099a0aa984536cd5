//go:build linux && amd64

package fakecuda

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// Results that the tests expect.
const (
	success              = 0
	invalidValue         = 1
	outOfMemory          = 2
	notInitialized       = 3
	noDevice             = 100
	invalidDevice        = 101
	invalidImage         = 200
	invalidContext       = 201
	noBinary             = 209
	invalidPTX           = 218
	unsupportedPTX       = 222
	invalidHandle        = 400
	illegalState         = 401
	notFound             = 500
	notReady             = 600
	illegalAddress       = 700
	contextDestroyed     = 709
	alreadyRegistered    = 712
	notRegistered        = 713
	launchFailed         = 719
	notPermitted         = 800
	notSupported         = 801
	captureUnsupported   = 900
	captureInvalidated   = 901
	captureMerge         = 902
	captureUnmatched     = 903
	captureUnjoined      = 904
	captureIsolation     = 905
	captureImplicit      = 906
	capturedEvent        = 907
	captureWrongThread   = 908
	graphUpdateFailure   = 910
	nonBlocking          = 1
	disableTiming        = 2
	captureGlobal        = 0
	captureThreadLocal   = 1
	captureRelaxed       = 2
	statusNone           = 0
	statusActive         = 1
	statusInvalidated    = 2
	accessReadWrite      = 3
	mib                  = 1 << 20
	granularity          = 2 * mib
	attrMaxSharedDynamic = 8
)

// cu is the driver as these tests call it: each field is the exported function of its tag.
type cu struct {
	t           testing.TB
	lib         *Library
	interpreter bool   // runs PTX,
	ptx         string // which is this

	handle     uintptr
	forkEvent  uintptr // of the tests of captures
	forkMemory uint64

	Init             func(flags uint32) int32                        `cu:"cuInit"`
	GetErrorName     func(code int32, out *uintptr) int32            `cu:"cuGetErrorName"`
	DriverGetVersion func(out *int32) int32                          `cu:"cuDriverGetVersion"`
	DeviceGetCount   func(out *int32) int32                          `cu:"cuDeviceGetCount"`
	DeviceGet        func(out *int32, ordinal int32) int32           `cu:"cuDeviceGet"`
	DeviceGetName    func(out *byte, n, device int32) int32          `cu:"cuDeviceGetName"`
	DeviceGetUUID    func(out *byte, device int32) int32             `cu:"cuDeviceGetUuid_v2"`
	DevicePCI        func(out *byte, n, device int32) int32          `cu:"cuDeviceGetPCIBusId"`
	DeviceByPCI      func(out *int32, id *byte) int32                `cu:"cuDeviceGetByPCIBusId"`
	DeviceAttribute  func(out *int32, attribute, device int32) int32 `cu:"cuDeviceGetAttribute"`
	DeviceTotalMem   func(out *uint64, device int32) int32           `cu:"cuDeviceTotalMem_v2"`

	GetProcAddress func(name string, out *uintptr, version int32, flags uint64, status *int32) int32 `cu:"cuGetProcAddress_v2"`

	PrimaryRetain  func(out *uintptr, device int32) int32 `cu:"cuDevicePrimaryCtxRetain"`
	PrimaryRelease func(device int32) int32               `cu:"cuDevicePrimaryCtxRelease_v2"`
	PrimaryReset   func(device int32) int32               `cu:"cuDevicePrimaryCtxReset_v2"`
	SetCurrent     func(ctx uintptr) int32                `cu:"cuCtxSetCurrent"`
	GetCurrent     func(out *uintptr) int32               `cu:"cuCtxGetCurrent"`
	PushCurrent    func(ctx uintptr) int32                `cu:"cuCtxPushCurrent_v2"`
	PopCurrent     func(out *uintptr) int32               `cu:"cuCtxPopCurrent_v2"`
	CtxSynchronize func() int32                           `cu:"cuCtxSynchronize"`

	MemAlloc   func(out *uint64, n uint64) int32        `cu:"cuMemAlloc_v2"`
	MemFree    func(p uint64) int32                     `cu:"cuMemFree_v2"`
	MemGetInfo func(free, total *uint64) int32          `cu:"cuMemGetInfo_v2"`
	MemRange   func(base, size *uint64, p uint64) int32 `cu:"cuMemGetAddressRange_v2"`

	HtoD      func(dst uint64, src *byte, n uint64) int32                 `cu:"cuMemcpyHtoD_v2"`
	DtoH      func(dst *byte, src, n uint64) int32                        `cu:"cuMemcpyDtoH_v2"`
	DtoD      func(dst, src, n uint64) int32                              `cu:"cuMemcpyDtoD_v2"`
	HtoDAsync func(dst uint64, src *byte, n uint64, stream uintptr) int32 `cu:"cuMemcpyHtoDAsync_v2"`
	DtoHAsync func(dst *byte, src, n uint64, stream uintptr) int32        `cu:"cuMemcpyDtoHAsync_v2"`
	DtoDAsync func(dst, src, n uint64, stream uintptr) int32              `cu:"cuMemcpyDtoDAsync_v2"`
	Copy      func(dst *byte, src, n uint64) int32                        `cu:"cuMemcpy"`
	CopyAsync func(dst, src, n uint64, stream uintptr) int32              `cu:"cuMemcpyAsync"`
	Set8      func(dst uint64, v uint8, n uint64, stream uintptr) int32   `cu:"cuMemsetD8Async"`
	Set32     func(dst uint64, v uint32, n uint64, stream uintptr) int32  `cu:"cuMemsetD32Async"`
	Set8Null  func(dst uint64, v uint8, n uint64) int32                   `cu:"cuMemsetD8_v2"`

	Copy2D         func(c *copy2D) int32                              `cu:"cuMemcpy2D_v2"`
	PointerGet     func(out *uint64, attribute int32, p uint64) int32 `cu:"cuPointerGetAttribute"`
	HostAlloc      func(out *uint64, n uint64, flags uint32) int32    `cu:"cuMemHostAlloc"`
	HostFree       func(p uint64) int32                               `cu:"cuMemFreeHost"`
	HostRegister   func(p *byte, n uint64, flags uint32) int32        `cu:"cuMemHostRegister_v2"`
	HostUnregister func(p *byte) int32                                `cu:"cuMemHostUnregister"`

	StreamCreate      func(out *uintptr, flags uint32) int32                 `cu:"cuStreamCreate"`
	StreamPriority    func(out *uintptr, flags uint32, priority int32) int32 `cu:"cuStreamCreateWithPriority"`
	StreamGetPriority func(s uintptr, out *int32) int32                      `cu:"cuStreamGetPriority"`
	StreamDestroy     func(s uintptr) int32                                  `cu:"cuStreamDestroy_v2"`
	StreamSynchronize func(s uintptr) int32                                  `cu:"cuStreamSynchronize"`
	StreamQuery       func(s uintptr) int32                                  `cu:"cuStreamQuery"`
	StreamWait        func(s, event uintptr, flags uint32) int32             `cu:"cuStreamWaitEvent"`
	LaunchHostFunc    func(s, fn, data uintptr) int32                        `cu:"cuLaunchHostFunc"`

	EventCreate      func(out *uintptr, flags uint32) int32    `cu:"cuEventCreate"`
	EventDestroy     func(e uintptr) int32                     `cu:"cuEventDestroy_v2"`
	EventRecord      func(e, stream uintptr) int32             `cu:"cuEventRecord"`
	EventQuery       func(e uintptr) int32                     `cu:"cuEventQuery"`
	EventSynchronize func(e uintptr) int32                     `cu:"cuEventSynchronize"`
	EventElapsed     func(ms *float32, from, to uintptr) int32 `cu:"cuEventElapsedTime"`

	Granularity    func(out *uint64, prop *allocProp, option int32) int32          `cu:"cuMemGetAllocationGranularity"`
	AddressReserve func(out *uint64, size, align, addr, flags uint64) int32        `cu:"cuMemAddressReserve"`
	AddressFree    func(p, size uint64) int32                                      `cu:"cuMemAddressFree"`
	MemCreate      func(out *uint64, size uint64, prop *allocProp, f uint64) int32 `cu:"cuMemCreate"`
	MemRelease     func(h uint64) int32                                            `cu:"cuMemRelease"`
	MemMap         func(p, size, offset, h, flags uint64) int32                    `cu:"cuMemMap"`
	MemUnmap       func(p, size uint64) int32                                      `cu:"cuMemUnmap"`
	MemSetAccess   func(p, size uint64, desc *accessDesc, n uint64) int32          `cu:"cuMemSetAccess"`

	ModuleLoad    func(out *uintptr, image *byte, n uint32, options *int32, values **byte) int32   `cu:"cuModuleLoadDataEx"`
	ModuleLoadLog func(out *uintptr, image *byte, n uint32, options *int32, values *uintptr) int32 `cu:"cuModuleLoadDataEx"`

	ModuleUnload   func(m uintptr) int32                              `cu:"cuModuleUnload"`
	ModuleFunction func(out *uintptr, m uintptr, name string) int32   `cu:"cuModuleGetFunction"`
	FuncGet        func(out *int32, attribute int32, f uintptr) int32 `cu:"cuFuncGetAttribute"`
	FuncSet        func(f uintptr, attribute, v int32) int32          `cu:"cuFuncSetAttribute"`

	Launch func(f uintptr, gx, gy, gz, bx, by, bz, shared uint32, s uintptr, params **byte, extra uintptr) int32 `cu:"cuLaunchKernel"`

	AllocAsync    func(out *uint64, n uint64, s uintptr) int32           `cu:"cuMemAllocAsync"`
	FreeAsync     func(p uint64, s uintptr) int32                        `cu:"cuMemFreeAsync"`
	DefaultPool   func(out *uintptr, device int32) int32                 `cu:"cuDeviceGetDefaultMemPool"`
	PoolGet       func(pool uintptr, attribute int32, out *uint64) int32 `cu:"cuMemPoolGetAttribute"`
	PoolSet       func(pool uintptr, attribute int32, v *uint64) int32   `cu:"cuMemPoolSetAttribute"`
	PoolTrim      func(pool uintptr, keep uint64) int32                  `cu:"cuMemPoolTrimTo"`
	CanAccessPeer func(out *int32, device, peer int32) int32             `cu:"cuDeviceCanAccessPeer"`
	EnablePeer    func(ctx uintptr, flags uint32) int32                  `cu:"cuCtxEnablePeerAccess"`
	DisablePeer   func(ctx uintptr) int32                                `cu:"cuCtxDisablePeerAccess"`

	PeerAsync func(dst uint64, to uintptr, src uint64, from uintptr, n uint64, s uintptr) int32 `cu:"cuMemcpyPeerAsync"`

	BeginCapture func(s uintptr, mode int32) int32                 `cu:"cuStreamBeginCapture_v2"`
	EndCapture   func(s uintptr, out *uintptr) int32               `cu:"cuStreamEndCapture"`
	IsCapturing  func(s uintptr, out *int32) int32                 `cu:"cuStreamIsCapturing"`
	ExchangeMode func(mode *int32) int32                           `cu:"cuThreadExchangeStreamCaptureMode"`
	GraphNodes   func(g uintptr, nodes *uintptr, n *uint64) int32  `cu:"cuGraphGetNodes"`
	GraphDestroy func(g uintptr) int32                             `cu:"cuGraphDestroy"`
	GraphTrim    func(device int32) int32                          `cu:"cuDeviceGraphMemTrim"`
	Instantiate  func(out *uintptr, g uintptr, flags uint64) int32 `cu:"cuGraphInstantiateWithFlags"`
	GraphLaunch  func(e, stream uintptr) int32                     `cu:"cuGraphLaunch"`
	ExecDestroy  func(e uintptr) int32                             `cu:"cuGraphExecDestroy"`
	ExecUpdate   func(e, g uintptr, info *updateInfo) int32        `cu:"cuGraphExecUpdate_v2"`
}

type allocProp struct {
	Type, HandleTypes        int32
	LocationType, LocationID int32
	Handle                   uintptr
	Flags                    [8]uint8
}

// copy2D is CUDA_MEMCPY2D.
type copy2D struct {
	SrcX, SrcY    uint64
	SrcType, _    int32
	Src           *byte
	SrcDevice     uint64
	_             uintptr
	SrcPitch      uint64
	DstX, DstY    uint64
	DstType, _    int32
	Dst           *byte
	DstDevice     uint64
	_             uintptr
	DstPitch      uint64
	Width, Height uint64
}

type accessDesc struct{ LocationType, LocationID, Flags int32 }

type updateInfo struct {
	Result          int32
	Error, FromNode uintptr
}

// load opens the library and looks up every function.
func load(t testing.TB) *cu {
	t.Helper()
	path := Build(t)
	c := &cu{t: t, lib: Open(t, path)}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	c.handle = handle
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("cu"); name != "" {
			purego.RegisterLibFunc(v.Field(i).Addr().Interface(), handle, name)
		}
	}
	return c
}

// start initialises the driver and makes the primary context of device 0 current to this goroutine's thread, which it keeps
// until the test ends.
func start(t testing.TB) *cu {
	t.Helper()
	c := load(t)
	c.ok(c.Init(0))
	c.enter(0)
	return c
}

// enter retains and makes current the primary context of a device; both end with the test.
func (c *cu) enter(device int32) (ctx uintptr) {
	c.t.Helper()
	runtime.LockOSThread()
	c.ok(c.PrimaryRetain(&ctx, device))
	c.ok(c.SetCurrent(ctx))
	c.t.Cleanup(runtime.UnlockOSThread)
	return ctx
}

func (c *cu) ok(code int32) {
	c.t.Helper()
	require.Equal(c.t, int32(success), code, "findings: %v", c.lib.Findings())
}

func (c *cu) is(want int, code int32) {
	c.t.Helper()
	require.Equal(c.t, int32(want), code, "findings: %v", c.lib.Findings())
}

func (c *cu) alloc(n uint64) (p uint64) {
	c.t.Helper()
	c.ok(c.MemAlloc(&p, n))
	return p
}

func (c *cu) stream() (s uintptr) {
	c.t.Helper()
	c.ok(c.StreamCreate(&s, nonBlocking))
	return s
}

func (c *cu) event() (e uintptr) {
	c.t.Helper()
	c.ok(c.EventCreate(&e, 0))
	return e
}

// read waits for the NULL stream only.
func (c *cu) read(p, n uint64) []byte {
	c.t.Helper()
	b := make([]byte, n)
	c.ok(c.DtoH(&b[0], p, n))
	return b
}

// readHost reads pinned memory.
func (c *cu) readHost(p, n uint64) []byte {
	c.t.Helper()
	b := make([]byte, n)
	c.ok(c.Copy(&b[0], p, n))
	return b
}

func (c *cu) write(p uint64, b []byte) {
	c.t.Helper()
	c.ok(c.HtoD(p, &b[0], uint64(len(b))))
	c.ok(c.StreamSynchronize(0)) // it has been read, but may not have arrived
}

// found requires that the last finding has all of the given texts.
func (c *cu) found(texts ...string) {
	c.t.Helper()
	all := c.lib.Findings()
	require.NotEmpty(c.t, all)
	for _, text := range texts {
		require.Contains(c.t, all[len(all)-1], text)
	}
}

// callWithZeros calls any function of the driver: none takes more than 12 arguments.
func (c *cu) callWithZeros(name string) int32 {
	c.t.Helper()
	f, err := purego.Dlsym(c.handle, name)
	require.NoError(c.t, err)
	code, _, _ := purego.SyscallN(f, make([]uintptr, 12)...)
	return int32(code)
}
