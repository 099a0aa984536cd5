package parallel

import "github.com/cistern-ml/cistern/autograd/nn"

// Option changes what Data does. All ranks give the same ones.
type Option func(*settings)

type settings struct {
	stage       int
	first, rest int // bytes of buckets
	unused      bool
	parts       bool
	buffers     bool
	joined      bool // batch norms
	master      bool
	units       []nn.Module
}

func defaults() settings { return settings{first: 1 << 20, rest: 25 << 20, buffers: true} }

// ZeRO shards what a rank keeps over the ranks, by stages (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// arXiv:1910.02054): 0 keeps everything everywhere, the default; 1 shards the optimizer's state; 2 the gradients too; 3 the parameters too. Each rank must have elements to
// keep in stages above 0: a model that is too small for the ranks is refused.
func ZeRO(stage int) Option { return func(s *settings) { s.stage = stage } }

// BucketBytes is how many bytes of gradients are reduced at once: at least first in the first bucket, so that it is on its way early, and rest in all
// others. The defaults are PyTorch's, 1 MiB and 25 MiB. With ZeRO 3 buckets are the units.
func BucketBytes(first, rest int) Option {
	return func(s *settings) { s.first, s.rest = first, rest }
}

// FindUnused lets parameters be that a loss does not depend on (find_unused_parameters). Where other ranks have a gradient, the rank's own counts as zero, also of what it has frozen since Data. A
// parameter that no rank has used keeps the gradient that it had, and hooks that wait for a gradient (RegisterPostAccumulateGradHook) are not called for it. It costs an all-reduce of one number for each parameter, for which the host waits. With ZeRO 3 all ranks still run the same units, since each gathers them from all.
func FindUnused() Option { return func(s *settings) { s.unused = true } }

// GradientsInParts is for models that use a parameter in several checkpointed regions, or by a checkpointed module that a backward pass sees several times, as a GAN's discriminator:
// its gradient comes in as many parts. Then the first pass reduces all buckets at its end, and learns how many parts there are. With ZeRO 3 it is also for a backward pass that sees more forward passes than came since the
// last one, as where all forward passes of a graph come before several backward passes, or a graph is retained; and for what uses parameters in Whole beside a forward pass. A pass with more parts than were learned learns anew where it runs the module more often in its forward pass (ZeRO 3); more checkpointed regions are an error where the bucket was reduced before the last of them, so that the pass with most of them comes first.
func GradientsInParts() Option { return func(s *settings) { s.parts = true } }

// BroadcastBuffers says whether each forward pass of training outside of NoSync, and the first one of an evaluation (autograd.NoGrad) after it, starts with rank 0's buffers, such as the running
// statistics of batch norms, of floating-point types and int64 (broadcast_buffers). So all ranks evaluate alike, and make that pass too; one that evaluates alone runs Module, without Run.
// The default is true.
func BroadcastBuffers(on bool) Option { return func(s *settings) { s.buffers = on } }

// Units are the modules whose parameters ZeRO 3 gathers together, for their forward pass and again for backward. What is in no unit, and what
// several units share, belongs to the model itself: it is gathered by Run and stays until backward has ended. What the model's Forward reads by itself is best left out of Units, and is the model's own then; of a unit that has run it is gathered again, until the forward pass has ended. The default is the model's parts, and in their place
// the elements of those that are lists. With ZeRO 0 to 2, which gather nothing in units, they are checked, and change nothing.
func Units(modules ...nn.Module) Option { return func(s *settings) { s.units = modules } }

// SyncBatchNorm makes the batch norms of the model (nn.BatchNormLayer) normalise by the moments of the batches of all ranks together in training, and not of each rank's own
// (torch.nn.SyncBatchNorm). Each layer then sends two small arrays forward, and two backward. It ends with Close.
func SyncBatchNorm() Option { return func(s *settings) { s.joined = true } }

// MasterWeights is for models in half precision, with ZeRO 1 to 3: a rank keeps its part of the parameters in float32 as well, which the optimizer updates, by gradients that are
// converted when they have been reduced. What is sent stays in half precision. So small steps are not lost in rounding: the "mixed precision" of the ZeRO paper's table.
func MasterWeights() Option { return func(s *settings) { s.master = true } }
