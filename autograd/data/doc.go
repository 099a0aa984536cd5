// Package data feeds data sets to training loops in batches.
//
//	loader := data.NewLoader(dev, data.Tensors(images, labels), 64, data.Shuffle(tensor.NewGenerator(1)))
//	for x, y := range loader.Batches() {
//		...
//	}
//	if err := loader.Err(); err != nil { ... }
//
// A Dataset makes whole batches, of tensors or slices that are in memory. A Source makes examples one by one, of as many arrays as it
// likes: files are opened and decoded, say, in several goroutines ahead of the loop.
//
//	loader := data.NewSourceLoader(dev, source, 64, data.Workers(2), data.PinMemory(), data.Shuffle(gen))
//	defer loader.Close()
//	for batch, err := range loader.All(ctx) {
//		if err != nil { ... }
//		x, y := batch.Tensors[0], batch.Tensors[1]
//	}
//
// Package autograd/data/images decodes and changes images.
//
// # Memory
//
// The loader owns the tensors of a batch. It releases them when the loop takes the next batch, and when the loop ends, also by
// break, return or panic; Retain them to keep them longer. Because the batch before is released first, and batches have the
// same sizes, a caching allocator serves every batch but the first from its cache.
//
// With workers there are also the batches that are ready or in the making (Prefetch), and those released ones that the loop's stream still
// has to read: after the first turns no memory comes from the driver any more, in later loops neither.
//
// # Streams
//
// Workers allocate and upload on a stream of the loader's, with PinMemory from pinned memory, without waiting. The loop's stream waits for the
// upload of a batch when the loop takes it, not the program. The tensors that the loop gets work on the loop's stream (WithStream, or the
// device's default); the allocator is told of their use there, so that they may be released at any time, as all tensors.
//
// # The end of a loop
//
// However a loop ends (its last batch, break, return, a panic, an error, the end of its context), its workers have ended when it is left, and all
// batches that nobody took are released. For that the loop waits for the calls of Source.Example that are under way: they should
// return when their context ends. What remains until Close is the stream.
//
// # Random numbers
//
// The order is drawn from the generator of Shuffle, or by a sampler. The numbers that an example gets for its transforms depend on
// the generator (WithGenerator, or that of Shuffle), on how many loops there were before, and on the example's place in the loop. Neither depends on workers,
// nor on which of them is faster.
//
// # Errors
//
// An error about one example is an *ExampleError with its number, one about a batch a *BatchError; a panic in a function of the
// program is in it as a *PanicError, with its stack. The loop gets the batches before it first. Errors of the device that work on the loader's
// stream meets later are told by the next call that waits for that stream, Close for one.
package data
