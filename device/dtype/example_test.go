package dtype_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/device/dtype"
)

// The element types, and how many bytes an element has.
func ExampleAll() {
	for _, dt := range dtype.All() {
		fmt.Println(dt, dt.Size(), dt.IsFloat())
	}
	// Output:
	// float32 4 true
	// float64 8 true
	// float16 2 true
	// bfloat16 2 true
	// int64 8 false
	// int32 4 false
	// uint8 1 false
	// bool 1 false
}
