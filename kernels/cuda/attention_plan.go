package cuda

import "github.com/cistern-ml/cistern/device"

// attentionPlan is how a kernel for tensor cores cuts its call, for heads of up to size elements: the constants of its source.
type attentionPlan struct {
	place int // among those of its mode
	size  int
	rows  int // of a block
	lines int // of shared memory: rows that stay there, and two stages of two tiles
	more  int // bytes of shared memory besides
}

const attentionSizes = 3

// attentionPlans are those of each result, in the order of their sizes. A row's elements stay in registers, so that kernels of longer
// heads have fewer rows or shorter tiles (registers.md).
var attentionPlans = [...][attentionSizes]attentionPlan{
	attentionResult:  {{0, 64, 128, 256, 0}, {1, 96, 128, 256, 0}, {2, 128, 128, 256, 0}},
	attentionQueries: {{0, 64, 128, 384, 0}, {1, 96, 128, 384, 0}, {2, 128, 64, 256, 0}},
	attentionKeys:    {{0, 64, 128, 384, 512}, {1, 96, 64, 256, 512}, {2, 128, 64, 256, 512}},
}

// shared is the bytes of shared memory of a block. A row has 16 bytes more than its elements take, and the seed of random numbers comes first.
func (p *attentionPlan) shared() int { return 16 + p.lines*(p.size+8)*2 + p.more }

// plan is that of the kernel for tensor cores that a call goes to, or nil: not every call can, nor every device.
func (a *attention) plan(kernels *attentionKernels, mode attentionMode, on device.Device) *attentionPlan {
	if !a.tensorable(kernels) {
		return nil
	}
	for i := range attentionPlans[mode] {
		p := &attentionPlans[mode][i]
		if max(a.q.Shape[3], a.v.Shape[3]) > p.size {
			continue
		}
		if p.shared() > max(on.Properties().SharedMemory, anyShared) {
			return nil
		}
		return p
	}
	return nil
}
