// Package cublas finds and opens cuBLAS and cuBLASLt, NVIDIA's libraries of matrix products, and knows their functions, numbers
// and status codes. They come with the CUDA toolkit, with PyTorch, or alone; nothing here needs them. Calls are made by package
// driver, whose batches set the device's context.
//
// The numbers are those of the headers cublas_api.h, cublasLt.h and library_types.h. They have not changed from version 11 to 13.
package cublas
