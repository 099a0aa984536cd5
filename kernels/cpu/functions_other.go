//go:build !amd64 && !arm64

package cpu

// Processors without vector functions have those in Go.
func vectorFunction(functionID, int, *float32, *float32, *float32, *float32, *functionScalars) {}

func vectorWideFunction(wideFunctionID, int, *float64, *float64, *float64, *float64, *functionScalars) {
}
