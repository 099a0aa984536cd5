package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Kernels work on raw device memory: here, the sum of a row vector and a column vector, both broadcast by strides of 0.
func ExampleLaunch() {
	dev := host.New()
	defer dev.Close()
	p, err := dev.Malloc(4 * (3 + 2 + 6))
	if err != nil {
		fmt.Println(err)
		return
	}
	stream := dev.DefaultStream()
	var numbers []byte
	for _, f := range []float32{1, 2, 3, 10, 20} {
		numbers = binary.LittleEndian.AppendUint32(numbers, math.Float32bits(f))
	}
	if err := stream.CopyToDevice(p, numbers); err != nil {
		fmt.Println(err)
		return
	}

	matrix := op.View{DType: dtype.Float32, NDim: 2, Shape: [op.MaxDims]int{2, 3}}
	row, column, sum := matrix, matrix, matrix
	row.Ptr, row.Strides = p, [op.MaxDims]int{0, 1}
	column.Ptr, column.Strides = p.Add(4*3), [op.MaxDims]int{1, 0}
	sum.Ptr, sum.Strides = p.Add(4*5), [op.MaxDims]int{3, 1}
	err = kernels.Launch(&op.Call{
		Op: op.Add, Stream: stream, Out: []op.View{sum}, In: []op.View{row, column},
		F: [8]float64{1}, // the factor of the second input
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	result := make([]byte, 4*6)
	if err := stream.CopyToHost(result, sum.Ptr); err != nil {
		fmt.Println(err)
		return
	}
	for i := 0; i < len(result); i += 4 {
		fmt.Print(math.Float32frombits(binary.LittleEndian.Uint32(result[i:])), " ")
	}
	// Output: 11 12 13 21 22 23
}
