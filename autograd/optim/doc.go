// Package optim has the optimizers (SGD, Adam, AdamW, Adamax, NAdam, RAdam, RMSprop, Adagrad, Adadelta, ASGD, Rprop, Lion, Muon, LBFGS),
// learning-rate schedules and clipping of gradients, with PyTorch's names, defaults and numbers.
//
//	opt := optim.AdamW(model.Parameters(), optim.LR(1e-3))
//	defer opt.Release()
//	...
//	loss.Backward(); opt.Step(); opt.ZeroGrad()
//
// # State
//
// What an optimizer keeps for a parameter (momentum, moments) has the parameter's shape, type, device and stream. It is made
// at the first step at which the parameter has a gradient, belongs to the optimizer, and stays until Release: StateBytes
// says how much it is. Parameters without a gradient are skipped: neither they nor their state change, and weight decay does
// not act on them.
//
// StateDict and LoadStateDict take it out and in, with the settings, under PyTorch's names; package checkpoint saves it.
//
// # Schedules
//
// A Schedule changes the learning rates of all groups, from the rate that each had when it was made:
//
//	warm := optim.LinearLR(opt, 0.1, 1, 500)
//	cosine := optim.CosineAnnealingLR(opt, 9500, 0)
//	schedule := optim.SequentialLR(opt, []*optim.Schedule{warm, cosine}, []int{500})
//	...
//	opt.Step(); schedule.Step()
//
// # Launches
//
// Step updates all parameters of a group that share type, stream and number of steps taken in one launch, in place, without
// temporaries.
//
// Adamax, NAdam, RAdam, Adadelta, ASGD, Rprop and Muon have no kernel of their own. Their steps are made of tensor operations, some ten for each
// parameter, and take memory for a second copy of the parameters and their state while they last: all of it is computed before the first
// parameter changes, so that a step for which memory is missing changes nothing.
//
// # Steps on the device
//
// StepScaled takes a scale of the gradients and a flag that leaves the step out from the device. So nobody needs to wait for it: that
// is how an amp.GradScaler calls every optimizer of this package. As only the device knows then how many steps were taken, it counts
// them, in one small block for all parameters, from the first such step on: parameters that have taken different numbers of steps
// share a launch too, and where the steps matter a second launch, of one thread for each parameter, counts. StateDict waits for the
// counters, and has the form that it always has.
//
// Optimizers without a kernel of their own count on the host: their StepScaled waits for the scale and the flag, and they refuse Capturable.
//
// Capturable counts on the device without a scaler. A step that is captured in a graph counts when the graph is replayed; take one
// before, so that the state is there. Learning rates are those of the capture; of a step that package autograd/stepgraph has captured, which needs no
// such option, they are those of each replay.
package optim
