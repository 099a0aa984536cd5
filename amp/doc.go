// Package amp trains in mixed precision, with PyTorch's rules, names and defaults (torch.amp): each operation runs in the
// precision that suits it, and small gradients are kept from vanishing.
//
//	scaler := amp.NewGradScaler()
//	for images, labels := range batches {
//		g := autograd.NewGraph(dev, amp.Autocast(tensor.Float16))
//		loss := model.Forward(g.Input(images)).CrossEntropy(g.Input(labels))
//		err := scaler.Backward(loss)   // gradients of the scaled loss
//		g.Release()
//		...
//		err = scaler.Step(opt)         // steps by gradients / scale, unless a gradient overflowed
//		opt.ZeroGrad()
//		err = scaler.Update()          // adapts the scale
//	}
//
// The two parts, autocast and GradScaler, know nothing of each other. Float16 needs both; bfloat16 has the range of float32 and
// needs no scaler, but has only 8 bits of precision.
//
// # Autocast
//
// A graph made with Autocast asks the policy (policy.go) for the class of each operation before it runs, and converts the
// operation's inputs accordingly:
//
//	lower precision   matmul, linear, einsum, convolutions,   inputs become float16 or bfloat16
//	                  attention, recurrent layers
//	float32           exp, log, pow, losses, softmax, sum     inputs become float32, and so the result
//	widest input      addcmul, atan2, dot, tensordot, cross,  float32 if an input is, else the lower precision
//	                  bilinear, index_put, scatter_add
//	untouched         everything else                         as without autocast
//	banned            binary_cross_entropy                    an error that names the safe form
//
// Only eligible inputs are converted: floating-point, but not float64. A product of a float64 with anything else therefore fails
// as it does without autocast. The policy is that of PyTorch for CUDA devices, on every device: the same program computes
// in the same precision, and takes the same memory, wherever it runs.
//
// Conversions are operations of the graph. Gradients come back through them, so that each leaf gets a gradient in its own
// type: parameters stay in float32, and so do their gradients and what an optimizer keeps. Gradient rules themselves are never
// cast: they run in the types of their forward operation, but for the weight and bias of a linear layer, whose gradients are sums in float32 that are
// not rounded on their way to the parameter.
//
// Norms return float32. One whose result only linear layers read writes lower precision at once: nn.LayerNormLayer.BeforeLinear.
//
// Region changes autocast for a part of a program, and nests.
//
// # Memory
//
// What is converted for one operation is freed when that operation has run, except what it saves for backward. Weights are used
// again, by other layers and other steps of a sequence, so their casts are kept: one 16-bit copy of each float32 leaf that
// requires a gradient, for each lower precision, from its first use until Graph.Release. CacheEnabled(false) trades
// that memory for a conversion at each use. A weight that is changed in place is cast anew. A WeightCache keeps them longer, for all graphs of a step, and
// makes them in one launch.
//
// # GradScaler
//
// Float16 has no numbers between 0 and 6e-8, and gradients are often smaller. GradScaler multiplies the loss by a scale, so
// the gradients are larger by it. If the scale is too large, some gradient becomes infinite or NaN: then the step is left out
// and the scale is halved. If that has not happened for 2000 steps, the scale is doubled. So it stays just below what
// the gradients allow. One iteration, and what an optimizer may do in it:
//
//	Scale, Backward   any number of times; gradients accumulate, all with one scale
//	Unscale           once for each optimizer, if gradients are looked at or clipped
//	Step              once for each optimizer; unscales if Unscale did not
//	Update            once; all optimizers begin anew
//
//	ready --Unscale--> unscaled --Step--> stepped --Update--> ready
//	  \---------------Step--------------/
//
// A Step that fails for lack of memory for the optimizer's state has changed nothing and may be called again: the gradients are still there,
// unscaled if Unscale has been called. One that fails in the middle, at a kernel's launch, has changed some parameters. To repeat the whole iteration after an Unscale, call Update first, as in PyTorch, and ZeroGrad, and go on with Scale and
// Backward: until Update another Unscale is UnscaledTwice. That Update counts the iteration that was left as one.
//
// Everything else is a *ScalerError with PyTorch's text. Several optimizers share one scaler: each skips by itself, and the scale
// backs off if any of them had to.
//
// # The device decides
//
// Scale, growth tracker and the flag "a gradient overflowed" are tensors. Unscale is one launch for all gradients of a type,
// which divides and searches at the same time; Update is one launch that reads the flags. The optimizers of autograd/optim read
// scale and flag themselves (FusedStepper): Step searches the gradients without writing them, and the optimizer's kernel divides them
// as it reads them, or does nothing. So nothing in an iteration waits for the device, and all of it can be captured in a graph. For
// another optimizer the host waits once, in Step, to learn whether to call it. Streams are ordered by events: graph, parameters and
// scaler may each be on their own, and gradients on several devices. But a capture cannot wait for what is not in it: parameters
// and scaler of an iteration that is captured are on the stream that is captured (nn.WithStream, and one iteration before). Package autograd/stepgraph
// captures whole iterations, and sees to that.
package amp
