// Package data feeds data sets to training loops in batches.
//
//	loader := data.NewLoader(dev, data.Tensors(images, labels), 64, data.Shuffle(tensor.NewGenerator(1)))
//	for x, y := range loader.Batches() {
//		...
//	}
//	if err := loader.Err(); err != nil { ... }
//
// # Memory
//
// The loader owns the tensors of a batch. It releases them when the loop takes the next batch, and when the loop ends, also by
// break, return or panic; Retain them to keep them longer. Because the batch before is released first, and batches have the
// same sizes, a caching allocator serves every batch but the first from its cache.
package data
