package blas

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
)

// MaxDims is the most batch dimensions of a Product.
const MaxDims = 8

// Matrix is an operand: the address of its first element, and the distances in elements of neighbouring rows and columns.
type Matrix struct {
	Ptr         device.Ptr
	Row, Column int
}

// transposed is the same memory with rows and columns exchanged.
func (a Matrix) transposed() Matrix { return Matrix{a.Ptr, a.Column, a.Row} }

// Activation is a function that is applied to each element of a product as it is written.
type Activation uint8

// The activations.
const (
	Identity Activation = iota
	ReLU
	GELU     // with the error function
	GELUTanh // the approximation with tanh
)

// Product is dst = f(alpha*a@b + beta*c), M by K times K by N, or a batch of such products. Type is that of all elements:
// Float32, Float64, Float16 or BFloat16; half types are computed in float32 and rounded once. Result is another type for dst and sums, or
// 0: Float32, for half types, which are not rounded then.
type Product struct {
	Type, Result dtype.DType
	M, N, K      int
	Alpha, Beta  float64
	Dst, A, B, C Matrix // C is not read, and need not be set, if Beta is 0
	Activation   Activation
	Pre          Matrix     // also gets what the activation is applied to, unless its Ptr is 0; only without a batch
	Sums         device.Ptr // also gets the M sums of a's rows, unless it is 0; only without a batch, an activation and c

	// The batch: its dimensions, each of more than one product, and the distances in elements of dst, a, b and c. Stride 0
	// uses an input again.
	Dims    int
	Shape   [MaxDims]int
	Strides [4][MaxDims]int
}

// ResultType is the type of dst.
func (p *Product) ResultType() dtype.DType {
	if p.Result == dtype.Invalid {
		return p.Type
	}
	return p.Result
}

// Multiplier is a device.Launcher that may have a library of matrix products.
type Multiplier interface {
	device.Launcher
	// HasLibrary reports whether there is a library now that may take products. It loads the library at the first call.
	HasLibrary() bool
	// MatMulWorkspace returns how many bytes of workspace, aligned to 256, the library wants for p. ok is false if there is no
	// library or if it does not compute p; then MatMul would not do it either. It loads the library at the first call.
	MatMulWorkspace(p *Product) (bytes uint64, ok bool)
	// MatMul enqueues p on a stream, with a workspace that must live until the stream has passed it. done is false if the library
	// refused: then there is nothing of p on the stream, and the caller computes it otherwise. The error is that of work
	// that may have been begun, or of the device.
	MatMul(s device.Stream, p *Product, work device.Ptr, bytes uint64) (done bool, err error)
}
