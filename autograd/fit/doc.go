// Package fit finds the largest batch with which a training program fits a device, before anybody has that device: it runs the program
// on simulated ones (device/sim), where nothing is computed and the allocator does all that it would do.
//
//	capacity, err := fit.Capacity("RTX 4090")
//	report, err := fit.Largest(ctx, capacity, program, fit.Precisions(tensor.Float32, tensor.Float16), fit.Checkpointing())
//	fmt.Println(report)
//
// The program is a function that makes a model on the device that it is given, trains it for as many steps as Trial.Steps has, and returns the first error: see
// Program. It is run once for each batch that is tried, under all combinations of the settings that it takes, each time on a new device with
// a new allocator. A trial takes the time that launching the operations takes: some hundredths of a second for four steps of a GPT-2.
//
// # What "largest" means
//
// Batches of 1, 2, 4 and so on are tried until one does not fit, and then those between by bisection; a program that does not take one sample, or only
// multiples of some number, says so by MinBatch and BatchStep, which are then what is counted from and by. More samples need not take more memory of
// the driver: where segments are, and which blocks can be split, changes with every size. So a few batches above the result are tried too, and if
// one of them fits, those above that. The largest batch is one that fits, while the next four do not; whether a far larger one
// fits, by luck, is not known. Where a batch of 1 does not fit, those up to 5 and powers of two up to 64 are tried, as there are programs that want less memory
// for more. Of a program whose batches fit here and there without end the search gives up after some hundred trials, with one of those that fit.
//
// A batch fits if the program returns no error and no request for memory failed meanwhile, in as many steps as it takes until memory repeats itself: until the
// last step, or the last few, asked for the same as those just before, in the same order and at the same places, and left the same segments with the same blocks. Of a program whose steps are all
// alike, or alike by turns, that is a proof for all steps to come, if no tensor that a step replaces is older than such a turn. Where it
// does not come to that in MaxSteps steps, or garbage_collection_threshold is set, which goes by the ages of blocks, Result.Steady is false, and the report has the number of steps.
// A program of several phases has a loop over Trial.Steps for each, and memory is to repeat itself in every one of them. A program that leaves a loop before that leaves it open,
// and the report says so.
// An error that is not for want of the device's memory ends the search, that of the first batch too: whether a larger one would do better is not guessed.
//
// # What is not known
//
// Values. A simulated device has none, and reading one gives 0: a program that decides by values what to do does here what it does with zeros. Operations
// whose results are as large as values say (Nonzero, MaskedSelect, Unique, BinCount, and OneHot without a number of classes) are refused with a
// *tensor.ValuesError. How often a program reads values is counted in Result.Reads: to read a loss for the log is harmless, but an optim.LBFGS, which is satisfied with
// gradients of 0, takes no memory for its history.
//
// A GPU's memory besides that of tensors. Its driver keeps some hundred megabytes for the process, and so may a screen: Occupied sets them aside. The figures are those
// of the host's kernels, to the byte; some kernels of a GPU, such as those of sorts, of split sums and of attention's gradients, take workspace for the time of a call.
package fit
