package cublas

import "strconv"

// Status is cublasStatus_t. 0 is success.
type Status uint32

// The codes.
const (
	Success         Status = 0
	NotInitialized  Status = 1
	AllocFailed     Status = 3
	InvalidValue    Status = 7
	ArchMismatch    Status = 8
	MappingError    Status = 11
	ExecutionFailed Status = 13
	InternalError   Status = 14
	NotSupported    Status = 15
	LicenseError    Status = 16
)

var statusNames = map[Status]string{
	Success: "CUBLAS_STATUS_SUCCESS", NotInitialized: "CUBLAS_STATUS_NOT_INITIALIZED", AllocFailed: "CUBLAS_STATUS_ALLOC_FAILED",
	InvalidValue: "CUBLAS_STATUS_INVALID_VALUE", ArchMismatch: "CUBLAS_STATUS_ARCH_MISMATCH",
	MappingError: "CUBLAS_STATUS_MAPPING_ERROR", ExecutionFailed: "CUBLAS_STATUS_EXECUTION_FAILED",
	InternalError: "CUBLAS_STATUS_INTERNAL_ERROR", NotSupported: "CUBLAS_STATUS_NOT_SUPPORTED",
	LicenseError: "CUBLAS_STATUS_LICENSE_ERROR",
}

// String returns the name in the header and the number, as in "CUBLAS_STATUS_ALLOC_FAILED (3)".
func (s Status) String() string {
	name := statusNames[s]
	if name == "" {
		name = "CUBLAS_STATUS"
	}
	return name + " (" + strconv.FormatUint(uint64(s), 10) + ")"
}

// Refused reports whether a call that answered so has begun nothing on the device: it does not support what was asked for, or
// lacked the means.
func (s Status) Refused() bool {
	switch s {
	case NotInitialized, AllocFailed, InvalidValue, ArchMismatch, NotSupported, LicenseError:
		return true
	}
	return false
}
