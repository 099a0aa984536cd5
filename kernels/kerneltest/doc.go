// Package kerneltest is the conformance suite of kernels: it runs every operation of package op on a device, through
// kernels.Launch alone, and compares the results with references that are slow and obviously right (loops over indices, in
// float64 or int64). A device passes or does not; kernels/cpu runs it on the host device, kernels/cuda on a GPU.
//
//	func TestConformance(t *testing.T) { kerneltest.Run(t, dev) }
//
// # What is tested
//
// Each case is a call: views of some shape, layout and type with some values. Shapes go from scalars over empty tensors to
// eight dimensions, and to sizes at which an implementation changes its ways (tails of vectors, blocks, parallel work).
// Layouts are contiguous, transposed, with gaps, walked backwards, and, for inputs, broadcast by a stride of 0; they start
// at odd addresses. Values include NaN, infinities, both zeros, the largest, the smallest and denormal numbers. Element-wise
// operations also run in place.
//
// # The image
//
// All memory of a case is one image: the views' elements with a pattern around and between them. The image is built on the
// host, copied to the device, the call is launched, and the image is copied back. Every byte that is not an element of an
// output (or of the workspace) must be what it was: that finds writes outside of views, into gaps, and into inputs.
//
// With Apart the memory is several copies of the image, gibibytes apart: slices of tensors that may have gaps lie in one each, so
// that a kernel which forms offsets in 32 bits misses them, and the rest of each copy must stay as it is.
//
// # Tolerance
//
// A reference gives a value v and a scale: the size of the largest number that was rounded on the way. A result is right if
// it is within half an ulp of v in the type of the result, plus n ulps of the scale in the type of computation, where n
// belongs to the operation. Half precision is computed in float32, so for it the second part hardly counts: it must be
// rounded once. For float64 the reference itself may be two ulps off. What only moves is compared bit by bit. Slack multiplies n.
// The scale of a sum of k products has a rounding for every second addition, which leaves room for tensor cores: they cut off instead of rounding.
package kerneltest
