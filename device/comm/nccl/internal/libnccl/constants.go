package libnccl

import (
	"fmt"
	"math"
)

// Func is a function of the library.
type Func uint8

// The functions. All but the last are required: they are there since 2.14.
const (
	GetVersion Func = iota
	GetUniqueID
	CommInitRankConfig
	CommFinalize
	CommDestroy
	CommAbort
	CommGetAsyncError
	GetErrorString
	GetLastError
	AllReduce
	ReduceScatter
	AllGather
	Broadcast
	Send
	Recv
	GroupStart
	GroupEnd

	CommInitRankScalable // since 2.23

	numFuncs
)

const lastRequired = GroupEnd

var symbols = [numFuncs]string{
	GetVersion: "ncclGetVersion", GetUniqueID: "ncclGetUniqueId", CommInitRankConfig: "ncclCommInitRankConfig", CommFinalize: "ncclCommFinalize",
	CommDestroy: "ncclCommDestroy", CommAbort: "ncclCommAbort", CommGetAsyncError: "ncclCommGetAsyncError", GetErrorString: "ncclGetErrorString",
	GetLastError: "ncclGetLastError", AllReduce: "ncclAllReduce", ReduceScatter: "ncclReduceScatter", AllGather: "ncclAllGather",
	Broadcast: "ncclBroadcast", Send: "ncclSend", Recv: "ncclRecv", GroupStart: "ncclGroupStart", GroupEnd: "ncclGroupEnd",
	CommInitRankScalable: "ncclCommInitRankScalable",
}

// String returns the exported name.
func (f Func) String() string {
	if f < numFuncs {
		return symbols[f]
	}
	return fmt.Sprintf("Func(%d)", uint8(f))
}

// ncclDataType_t.
const (
	Int8     = 0
	Uint8    = 1
	Int32    = 2
	Int64    = 4
	Float16  = 6
	Float32  = 7
	Float64  = 8
	BFloat16 = 9
)

// ncclRedOp_t.
const (
	Sum = 0
	Max = 2
	Min = 3
	Avg = 4
)

// Result is ncclResult_t.
type Result int32

// The results that are told apart. UnhandledCUDA, System, Internal, Argument and Usage say that a call or what it began has failed.
const (
	Success       Result = 0
	UnhandledCUDA Result = 1
	System        Result = 2
	Internal      Result = 3
	Argument      Result = 4
	Usage         Result = 5
	Remote        Result = 6 // another rank has gone, or the way to it
	InProgress    Result = 7 // what does not block has not finished
)

var resultNames = map[Result]string{Success: "ncclSuccess", UnhandledCUDA: "ncclUnhandledCudaError", System: "ncclSystemError",
	Internal: "ncclInternalError", Argument: "ncclInvalidArgument", Usage: "ncclInvalidUsage", Remote: "ncclRemoteError", InProgress: "ncclInProgress"}

// String is the name in the header and the number.
func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return fmt.Sprintf("%s (%d)", name, int32(r))
	}
	return fmt.Sprintf("ncclResult_t (%d)", int32(r))
}

// MinVersion is the oldest version that will do, 2.14: it is the first with communicators whose calls do not block.
const MinVersion = 2_14_00

// The versions in which things changed.
const (
	longerConfig = 2_17_00
	scalableInit = 2_23_00
)

// UniqueIDBytes is the size of ncclUniqueId.
const UniqueIDBytes = 128

// Config is the beginning of ncclConfig_t that all versions since 2.17 have. They copy as much as Size says, and take what is behind it as
// not set.
type Config struct {
	Size           uint64
	Magic          uint32
	Version        uint32
	Blocking       int32
	CGAClusterSize int32
	MinCTAs        int32
	MaxCTAs        int32
	NetName        uintptr
}

const (
	configMagic = 0xcafebeef
	undefined   = math.MinInt32 // NCCL_CONFIG_UNDEF_INT
)

// The sizes of Config, and of ncclConfig_t before 2.17: up to Blocking, and the padding behind it.
const (
	configBytes      = 40
	firstConfigBytes = 24
)

// NonBlocking is the configuration of a communicator whose calls do not block, for a version of the library.
func NonBlocking(version int) *Config {
	c := &Config{Size: configBytes, Magic: configMagic, Version: longerConfig,
		CGAClusterSize: undefined, MinCTAs: undefined, MaxCTAs: undefined}
	if version < longerConfig {
		c.Size, c.Version = firstConfigBytes, MinVersion
	}
	return c
}
