//go:build !amd64

package cpu

// Functions with masks are those of AVX-512.
func maskedFunction(functionID, int, *float32, *float32, *float32, *float32, *functionScalars) {}

func maskedWideFunction(wideFunctionID, int, *float64, *float64, *float64, *float64, *functionScalars) {
}
