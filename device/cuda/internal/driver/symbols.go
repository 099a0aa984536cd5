package driver

import "strconv"

// Func is a function of the driver. Its name is that of the exported symbol, with the version suffix that the headers hide.
type Func uint8

// The functions. Those up to lastRequired are in every driver since CUDA 11.0, and a library without one of them is not used.
// The others make up features, each asked for by Has: a call of one that is not there would jump to address 0.
const (
	Foreign Func = iota // not the driver's: an address that was given to AddForeign

	Init
	DriverGetVersion
	DeviceGetCount
	DeviceGet
	DeviceGetName
	DeviceTotalMem
	DeviceGetAttribute
	DevicePrimaryCtxRetain
	DevicePrimaryCtxRelease
	CtxSetCurrent
	CtxSynchronize
	CtxGetStreamPriorityRange
	MemAlloc
	MemFree
	MemGetInfo
	MemHostAlloc
	MemFreeHost
	MemHostRegister
	MemHostUnregister
	MemcpyHtoDAsync
	MemcpyDtoHAsync
	MemcpyDtoDAsync
	MemsetD8Async
	StreamCreateWithPriority
	StreamDestroy
	StreamQuery
	StreamSynchronize
	StreamWaitEvent
	EventCreate
	EventDestroy
	EventRecord
	EventQuery
	EventSynchronize
	ModuleLoadDataEx
	ModuleUnload
	ModuleGetFunction
	LaunchKernel

	// Timing and occupancy.
	EventElapsedTime
	FuncGetAttribute
	FuncSetAttribute
	OccupancyMaxActiveBlocks

	// Virtual memory, CUDA 10.2.
	MemAddressReserve
	MemAddressFree
	MemCreate
	MemRelease
	MemMap
	MemUnmap
	MemSetAccess
	MemGetAllocationGranularity
	MemRetainAllocationHandle

	// Peers.
	DeviceCanAccessPeer
	CtxEnablePeerAccess
	MemcpyPeerAsync

	// Stream-ordered memory, CUDA 11.2.
	MemAllocAsync
	MemFreeAsync
	DeviceGetDefaultMemPool
	MemPoolSetAttribute
	MemPoolGetAttribute
	MemPoolTrimTo
	MemPoolSetAccess

	// Graphs, CUDA 11.4.
	StreamBeginCapture
	StreamEndCapture
	GraphInstantiateWithFlags
	GraphLaunch
	GraphExecDestroy
	GraphDestroy
	GraphGetNodes
	DeviceGraphMemTrim

	// The device's name for the management library. The second knows parts of a GPU (MIG), CUDA 11.4.
	DeviceGetUUID
	DeviceGetUUID2

	numFuncs
)

const lastRequired = OccupancyMaxActiveBlocks

// symbols are the exported names.
var symbols = [numFuncs]string{
	Foreign: "foreign function",
	Init:    "cuInit", DriverGetVersion: "cuDriverGetVersion",
	DeviceGetCount: "cuDeviceGetCount", DeviceGet: "cuDeviceGet", DeviceGetName: "cuDeviceGetName",
	DeviceTotalMem: "cuDeviceTotalMem_v2", DeviceGetAttribute: "cuDeviceGetAttribute",
	DevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain", DevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2",
	CtxSetCurrent: "cuCtxSetCurrent", CtxSynchronize: "cuCtxSynchronize",
	CtxGetStreamPriorityRange: "cuCtxGetStreamPriorityRange",
	MemAlloc:                  "cuMemAlloc_v2", MemFree: "cuMemFree_v2", MemGetInfo: "cuMemGetInfo_v2",
	MemHostAlloc: "cuMemHostAlloc", MemFreeHost: "cuMemFreeHost",
	MemHostRegister: "cuMemHostRegister_v2", MemHostUnregister: "cuMemHostUnregister",
	MemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2", MemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2", MemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2",
	MemsetD8Async:            "cuMemsetD8Async",
	StreamCreateWithPriority: "cuStreamCreateWithPriority", StreamDestroy: "cuStreamDestroy_v2", StreamQuery: "cuStreamQuery",
	StreamSynchronize: "cuStreamSynchronize", StreamWaitEvent: "cuStreamWaitEvent",
	EventCreate: "cuEventCreate", EventDestroy: "cuEventDestroy_v2", EventRecord: "cuEventRecord", EventQuery: "cuEventQuery",
	EventSynchronize: "cuEventSynchronize", EventElapsedTime: "cuEventElapsedTime",
	ModuleLoadDataEx: "cuModuleLoadDataEx", ModuleUnload: "cuModuleUnload", ModuleGetFunction: "cuModuleGetFunction",
	LaunchKernel: "cuLaunchKernel", FuncGetAttribute: "cuFuncGetAttribute", FuncSetAttribute: "cuFuncSetAttribute",
	OccupancyMaxActiveBlocks: "cuOccupancyMaxActiveBlocksPerMultiprocessor",

	MemAddressReserve: "cuMemAddressReserve", MemAddressFree: "cuMemAddressFree", MemCreate: "cuMemCreate",
	MemRelease: "cuMemRelease", MemMap: "cuMemMap", MemUnmap: "cuMemUnmap", MemSetAccess: "cuMemSetAccess",
	MemGetAllocationGranularity: "cuMemGetAllocationGranularity", MemRetainAllocationHandle: "cuMemRetainAllocationHandle",

	DeviceCanAccessPeer: "cuDeviceCanAccessPeer", CtxEnablePeerAccess: "cuCtxEnablePeerAccess",
	MemcpyPeerAsync: "cuMemcpyPeerAsync",

	MemAllocAsync: "cuMemAllocAsync", MemFreeAsync: "cuMemFreeAsync", DeviceGetDefaultMemPool: "cuDeviceGetDefaultMemPool",
	MemPoolSetAttribute: "cuMemPoolSetAttribute", MemPoolGetAttribute: "cuMemPoolGetAttribute", MemPoolTrimTo: "cuMemPoolTrimTo",
	MemPoolSetAccess: "cuMemPoolSetAccess",

	StreamBeginCapture: "cuStreamBeginCapture_v2", StreamEndCapture: "cuStreamEndCapture",
	GraphInstantiateWithFlags: "cuGraphInstantiateWithFlags", GraphLaunch: "cuGraphLaunch", GraphExecDestroy: "cuGraphExecDestroy",
	GraphDestroy: "cuGraphDestroy", GraphGetNodes: "cuGraphGetNodes", DeviceGraphMemTrim: "cuDeviceGraphMemTrim",

	DeviceGetUUID: "cuDeviceGetUuid", DeviceGetUUID2: "cuDeviceGetUuid_v2",
}

// String returns the exported name, as in "cuMemAlloc_v2".
func (f Func) String() string {
	if f < numFuncs {
		return symbols[f]
	}
	return "Func(" + strconv.Itoa(int(f)) + ")"
}
