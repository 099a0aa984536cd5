package amp

import (
	"maps"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/tensor"
)

// PolicyNames are the operations of autograd that the policy names; PeerNames are PyTorch's others.
func PolicyNames() []string { return slices.Sorted(maps.Keys(policy)) }

// PeerNames are the names that the policy has beyond autograd's.
func PeerNames() (names []string) {
	for _, list := range peers {
		names = append(names, strings.Fields(list)...)
	}
	return names
}

// FoundInf are the flags of an optimizer, one for each device.
func (s *GradScaler) FoundInf(opt Optimizer) []*tensor.Tensor {
	for _, p := range s.optimizers {
		if p.opt == opt {
			return p.found
		}
	}
	return nil
}

// Tensors are the scale and the growth tracker.
func (s *GradScaler) Tensors() (scale, tracker *tensor.Tensor) { return s.scale, s.tracker }

// Held is all that s has in memory.
func (s *GradScaler) Held() []*tensor.Tensor {
	held := []*tensor.Tensor{s.scale, s.tracker}
	for _, p := range s.optimizers {
		held = append(held, p.found...)
	}
	return held
}

// UnscaleHalf is Unscale for gradients that may be in float16.
func (s *GradScaler) UnscaleHalf(opt Optimizer) error {
	p, err := s.of("Unscale", opt)
	if err != nil {
		return err
	}
	return s.unscale(p, true)
}
