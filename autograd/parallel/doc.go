// Package parallel trains one model on several devices at once, each of which works on a part of every batch: torch's DistributedDataParallel, and its sharding of what a
// rank keeps (ZeRO, FSDP), with PyTorch's defaults.
//
// A group of ranks is given by a comm.Comm (package device/comm): MPI or NCCL between processes, or a loopback within one. All ranks run the same program:
//
//	d, err := parallel.Data(model, c, parallel.ZeRO(2))
//	defer d.Close()
//	opt := optim.AdamW(d.Parameters())
//	sampler := parallel.NewSampler(len(examples), c.Rank(), c.Size(), parallel.Shuffle(seed))
//	for images, labels := range batches {
//		g := autograd.NewGraph(dev)
//		err := d.Forward(g.Input(images)).CrossEntropy(g.Input(labels)).Backward()
//		g.Release()
//		...
//		err = opt.Step()
//		opt.ZeroGrad()
//	}
//
// After Backward the gradients are the mean of those of all ranks; so n ranks train as one process does with n times the batch, if each loss is the mean of its examples. All
// ranks have the same parameters, to the bit. d.Run takes the place of d.Forward for models that are no layers.
//
// # What happens in a pass
//
// Gradients go, one by one as backward computes them, into flat arrays, the buckets, which are as large as a network likes. A bucket that is full is reduced on a stream of its own
// while backward goes on. The first pass expects gradients in the reverse order of the parameters; the others have the order in which rank 0 has come to them. At the end of the
// pass the streams meet, and the parameters' gradients are views of the buckets: so the gradients are in memory once. ZeroGrad gives it back.
//
// A backward pass of a graph in which Run has run nothing reduces nothing. It is refused where it has a gradient for a parameter of the model, which would be this rank's alone, before it begins and a hook is called: outside of NoSync, where ZeRO 0 adds it up as any other.
//
// A graph may have the forward passes of several models, as those of a GAN. A backward pass concerns those that it reaches, which are the same on all ranks; the others wait for the one that reaches them, or are dropped with the graph. With FindUnused
// every backward pass of the graph concerns the model, as a rank may reach none of its parameters where others do. Ranks that come to models of one communicator in another order have a comm.ErrMismatch with the numbers of both, in the order of Data, where the group compares calls, as a loopback does; where it does not, models of the same shapes get each other's gradients.
//
// NoSync adds gradients up without sending. ClipGradNorm clips by the norm over all ranks, ClipGradNormAsync without waiting for the device; with ZeRO 0, optim's do the same, and with ZeRO 1 to 3 they are errors (shared.go). A GradScaler made with amp.AgreedBy(d) leaves a step out on all ranks or
// on none. Buffers, as the running statistics of batch norms, are rank 0's at each forward pass of training and in evaluations (BroadcastBuffers), and SyncBatchNorm normalises over all ranks.
//
// Hooks of RegisterHook, and of RegisterVariableHook, are the model's parameters', with every stage: they see this rank's gradient, and what they return goes into the mean. What they read of Parameter.Grad is nil with ZeRO 1 to 3, also in NoSync, whose sums are in the buckets; with ZeRO 0 it is what earlier passes have left, until the pass has moved that into the bucket. With ZeRO 3 the parameter's Tensor is nil there. What a penalty of parts adds comes to the parts directly, past these hooks.
// With ZeRO 1 to 3 such a hook of a part, of what Parameters or ParametersOf has, is an error of the pass.
//
// Hooks of RegisterPostAccumulateGradHook are called at the end of the pass, when all gradients are reduced, and not in NoSync: so does optim's StepInBackward, whose step takes the sum then. With FindUnused they are called for what a rank has used in the pass, or in those of NoSync that it sums; a gradient of before alone calls none. Without it ZeRO 0 takes what has a gradient for used. As in one process, what Parameters has is given its gradients one by one, each before its own hooks are
// called, so that others may not have theirs yet: a hook works on its own parameter. The order differs between stages, and between the first pass and the next ones. With ZeRO 1 to 3 a rank calls the hooks of the parts that it has, so that a hook makes no collectives. A pass of a penalty of the parts in a graph in which Run has run nothing calls them at its end too, unless gradients of NoSync wait. The model's own
// parameters get no gradients then; such a hook of theirs is an error, as is SetGrad, and an optimizer of them has one in its first step. Within a backward pass hooks of either kind cannot evaluate by Run, nor call Close or Unshard. A stepgraph.Step cannot capture a pass, and refuses the model.
//
// # What a rank keeps
//
// With ψ parameters of p bytes, whose gradients take as much, an optimizer that keeps k bytes for each, and n ranks, a rank keeps (Rajbhandari et al., arXiv:1910.02054):
//
//	ZeRO   bytes                  on the wire, in units of pψ(n-1)/n
//	0      (p+p+k)ψ               2  all-reduce of the gradients
//	1      (p+p)ψ + kψ/n          2  reduce-scatter of the gradients, all-gather of the parameters
//	2      pψ + (p+k)ψ/n          2  the same
//	3      (p+p+k)ψ/n             3  all-gather for forward and for backward, reduce-scatter
//
// and buffers, what is frozen, and what rounding shards to 16 bytes adds; MasterWeights add 4ψ/n. Predict computes it to the byte for any number of ranks. What activations and
// units that are whole for a time add at the peak, a run on a simulated device tells (device/sim with comm.Simulated): it has the peak of a rank of a real group on the host,
// to the byte; kernels of GPUs take workspace beside that.
//
// With ZeRO 1 and 2 the parameters are views of a flat array for each bucket. The optimizer gets the rank's part of each as a parameter of its own (Parameters), and the next Run gathers
// what all ranks have updated, by a step or whatever else has written to a part; Whole does for other readers, and for who loads values into the model. In the ordinary loop all know when that is; in evaluations
// that follow each other, and in Whole, the ranks ask by one number whether a part has changed since. With ZeRO 3 a rank has its part alone. The forward pass of a unit (Units) gathers its parameters when it begins, and they are gone
// when its scope ends; operations have saved their place, not their memory, and backward gathers them again, until the last of their gradients has come. Meanwhile the next unit is on its way. So
// two units are whole at a time. A checkpoint in a unit has it gathered when its function runs again; a parameter that is read by the model itself when its unit has run is gathered again too, and stays until the forward pass has ended. A cast that autocast makes of a parameter is an activation, which lives until backward has used it: for the least memory have parameters in half precision, with
// MasterWeights. Hooks for saved tensors (autograd.SavedTensorHooks) do not see what is saved inside Run then.
//
// # Errors
//
// Data compares the models first, and names the rank and the parameter that differ. Parameters that a loss does not depend on are an error that names them (FindUnused
// allows them). When a rank cannot go on, because Run or a backward pass has failed or was refused, or a function of the program's has panicked in Run, Backward, Whole, NoSync or a Checkpoint, it ends the group, and the other ranks have an error that names it: no rank waits for one that does not come.
// On streams that are queues, as a GPU's, what became of a collective is known when the device has come there: such an error comes with the next call of the DataParallel that sends
// something or waits (Run, Backward, ClipGradNorm, Gather, Whole, Close), or with the next wait for the stream of the parameters or of the graph, such as Item of a loss or a copy of a gradient: a
// LaunchError whose cause is the *comm.Error.
//
// A rank that fails when a pass has sent all that it sends, as in a hook of RegisterPostAccumulateGradHook, or between passes, is heard of by the next collective. ZeRO 0 has none before the next pass, but for its first one: a step, ClipGradNorm, Whole and Close of the other ranks return nil until then. No
// collective is made for that alone, which each pass would pay for.
//
// A program does the same for what fails elsewhere:
//
//	if err := train(c); err != nil {
//		c.Abort(err)
//		return err
//	}
//
// # Checkpoints
//
// A Checkpoint saves what a run goes on from: each rank its part, which other numbers of ranks, other stages, and programs without a group read.
//
// # Files
//
//	parallel.go    Data, and what programs have of it          admit.go      which models and options it takes
//	compare.go     whether the ranks have the same model       trained.go    and train it, also later
//	run.go         a forward pass                              pass.go       a backward pass
//	take.go        the gradients that it comes to              reduce.go     and their reduction
//	buckets.go     which buckets they are in                   layout.go     arithmetic: where in buckets and shards
//	several.go     several models on one communicator
//	shared.go      what others are told of shared gradients    cleared.go    ZeroGrad while they are in buckets
//	collective.go  tensors as buffers                          streams.go    which streams wait for which
//	shard.go       ZeRO 1 and 2                                limits.go     what ranks that clip agree on
//	units.go       which parameters ZeRO 3 gathers together    gather.go     when it does
//	whole.go       whole parameters, to save and to load       close.go      the end, and what is left of the model
//	penalties.go   and gradients that parts have got alone
//	predict.go     what a rank holds, without running          sampler.go    whose examples are whose
//	checkpoint.go  saving and going on; then checkpointindex.go, checkpointsave.go and checkpointwrite.go, checkpointload.go, checkpointread.go and checkpointmatch.go, and agree.go: errors of all ranks
package parallel
