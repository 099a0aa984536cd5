// Package stepgraph captures a whole training step, forward, backward, clipping, gradient scaler and optimizer, as one graph of the driver, and replays it with new
// data. What Go and the driver do for each operation of a step is done once; a step is a launch.
//
//	step, err := stepgraph.New(dev, func(g *autograd.Graph, in []*autograd.Variable) ([]*autograd.Variable, error) {
//		loss := model.Forward(in[0]).CrossEntropy(in[1])
//		if err := scaler.Backward(loss); err != nil {
//			return nil, err
//		}
//		return []*autograd.Variable{loss}, errors.Join(scaler.Step(opt), scaler.Update())
//	}, stepgraph.Modules(model), stepgraph.GraphOptions(amp.Autocast(tensor.Float16)))
//	...
//	defer step.Close()
//	for images, labels := range batches {
//		out, err := step.Run(images, labels) // out[0] is the loss
//		...
//		schedule.Step()
//	}
//
// It is torch.cuda.make_graphed_callables and torch.cuda.graph for the part of a program that takes the time. Numbers are those of eager
// steps, to the bit.
//
// # When a run is what
//
// The first three runs (WarmUp) are eager: they make what must be there before a capture, such as the optimizer's state, load kernels, and are steps like all
// others. The fourth captures, which runs nothing, and replays. Inputs of other shapes or types are run eagerly once, and then have a graph of their own, up to
// MaxGraphs; further ones stay eager. All graphs have one pool of memory, since they run one after the other.
//
// A graph has the addresses of parameters, buffers, optimizer state and scale. If one of them is elsewhere at the next Run, because a state was loaded, or
// a parameter replaced, the graph is dropped, and after an eager run captured anew.
//
// On the host and on simulated devices, and with an allocator without a cache, each run is an eager one, so that a program is the same everywhere.
//
// # What differs from replay to replay
//
// Inputs are copied to fixed places. What the host decides is in device memory, from where the kernels read it; one small copy before the launch brings it up to
// date, and none is made if nothing has changed:
//
//	learning rate, momentum, betas,     of the optimizers with a kernel (SGD, Adam, AdamW, RMSprop, Adagrad, Lion): SetLR, SetMomentum and schedules are
//	weight decay and other numbers      called between runs, as ever
//	steps taken                         are counted on the device: bias corrections go on, and a step that the scaler leaves out does not count
//	scale and growth of a GradScaler    are on the device
//	random numbers                      of the step's generator (WithGenerator): its seed and offset; replays draw what eager runs would have drawn
//	running statistics of batch norms   are on the device, and so is the count of batches
//
// All else is as it was when the step was captured: what a function of Go decides, whether modules train or evaluate, which parameters require gradients, the norm at
// which gradients are clipped, growth factor and interval of a GradScaler, hooks of Go. A program that changes such a thing closes the
// step and makes another.
//
// # What a step must not do
//
// Nothing runs while a step is captured, so there is nothing to read. A read of a value (Item, Float64s, ClipGradNorm, whose Async form does not read), a tensor
// made of values of the host, a generator that is not the step's, and an optimizer that counts on the host (Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop, Muon) are
// refused with a *tensor.CaptureError that has the line of the program. Then nothing was changed, further runs of these shapes are the same error, and Eager
// goes on. Want of memory and errors of the driver are told likewise, and tried anew by the next Run.
//
// A model that several ranks train together (autograd/parallel) is refused, on all devices: what it does for each gradient is the host's.
//
// A step begins without gradients and ends without: those of the modules' parameters are released when the function returns. To accumulate over
// several batches, give all of them to one step.
//
// Modules names all modules that a step uses: their parameters are brought to the step's stream, since what is on other streams cannot be captured, and back
// by Close. An evaluation between steps needs no care; runs wait for what is on the default stream. Networks that are trained in turn, as those of a GAN, have
// one step with several passes and optimizers: a second step would bring the modules that both use to another stream.
//
// # Memory
//
// A graph takes its memory from a private pool, which nobody else uses until Close, because the addresses are part of it. What the eager runs have left in the
// cache goes back to the driver before the capture, so that a step takes its memory once; an eager run between replays takes it a second time. With
// a plan (memory.Plan, which GraphOptions(autograd.WithPlan(plan)) gives to the eager runs) the blocks of a step have fixed places in the pool, too. Replays ask for no
// memory, so no Plan.Step belongs around them.
package stepgraph
