// Package sparse has products of sparse matrices with dense ones, and what else graph networks are made of, with gradients.
//
//	edges, err := sparse.CSR(exec, nodes, nodes, crow, col)
//	defer edges.Release()
//	...
//	h := edges.MatMul(weights, x) // of a graph convolution
//
// # Pattern and values
//
// A Pattern says where a sparse matrix has elements: at Row and Col, one pair for each, in the order in which it was made. It lies on a device, and
// serves any number of graphs. What is at those places is an argument: a variable [elements], through which gradients flow, or nil
// for ones. Several matrices of one pattern, the heads of an attention, are a variable [elements, heads].
//
// # How it is computed
//
// Products are made of index selection, multiplication and index addition, so that they have gradients of any order, and take memory for the elements
// times the columns of what they are multiplied with. A place that is there twice counts twice.
package sparse
