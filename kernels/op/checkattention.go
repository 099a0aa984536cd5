package op

import (
	"slices"

	"github.com/cistern-ml/cistern/device/dtype"
)

func checkAttending(c *Call, backward bool) error {
	if backward {
		return checkAttentionGrad(c)
	}
	return checkAttention(c, c.In[:3], &c.Out[0], &c.Out[1], AttentionMask(c))
}

// attentionOperands is how many inputs Attention and AttentionGrad always have.
func attentionOperands(c *Call) int {
	if c.Op == AttentionGrad {
		return 6
	}
	return 3
}

// AttentionMask is the mask of a call of Attention or AttentionGrad, or nothing.
func AttentionMask(c *Call) []View {
	end := len(c.In)
	if c.I[3] != 0 {
		end--
	}
	return c.In[attentionOperands(c):end]
}

// AttentionSeed is the view of key and shift that a call of Attention or AttentionGrad takes from device memory, nil if it takes those of its
// scalars.
func AttentionSeed(c *Call) *View {
	if c.I[3] == 0 {
		return nil
	}
	return &c.In[len(c.In)-1]
}

// checkAttention takes q, k and v, the result, its lse, and perhaps the mask.
func checkAttention(c *Call, qkv []View, dst, lse *View, mask []View) error {
	if seed := AttentionSeed(c); seed != nil && (seed.DType != dtype.Int64 || seed.Len() != 2 || !seed.Contiguous()) {
		return Errorf(c.Op, ErrCall, "key and shift are %s of shape %v, want two int64", seed.DType, seed.dims())
	}
	q, k, v, r := qkv[0].dims(), qkv[1].dims(), qkv[2].dims(), dst.dims()
	for _, s := range [][]int{q, k, v, r} {
		if len(s) != 4 {
			return Errorf(c.Op, ErrCall, "shape %v, want four dimensions", s)
		}
	}
	fits := k[0] == q[0] && k[3] == q[3] && slices.Equal(v[:3], k[:3]) && slices.Equal(r[:3], q[:3]) && r[3] == v[3]
	if !fits || q[1] != 0 && (k[1] == 0 || q[1]%k[1] != 0) {
		return Errorf(c.Op, ErrCall, "q %v, k %v and v %v do not give %v", q, k, v, r)
	}
	if q[3] > MaxHead || v[3] > MaxHead {
		return Errorf(c.Op, ErrCall, "heads of %d and %d elements, at most %d are allowed", q[3], v[3], MaxHead)
	}
	if !slices.Equal(lse.dims(), q[:3]) || !lse.Contiguous() {
		return Errorf(c.Op, ErrCall, "lse has shape %v, want a contiguous %v", lse.dims(), q[:3])
	}
	if len(mask) > 0 && (c.I[0] != 0 || !slices.Equal(mask[0].dims(), []int{q[0], q[1], q[2], k[2]})) {
		return Errorf(c.Op, ErrCall, "a mask of %v with scores of [%d %d %d %d] (causal: %d)", mask[0].dims(), q[0], q[1], q[2], k[2], c.I[0])
	}
	return nil
}

// MaxHead is the largest number of elements of a head of Attention.
const MaxHead = 1024

func checkAttentionGrad(c *Call) error {
	if err := checkSameShape(c, &c.In[0], &c.In[4]); err != nil {
		return err
	}
	for i := range 3 {
		if err := checkSameShape(c, &c.Out[i], &c.In[1+i]); err != nil {
			return err
		}
	}
	if len(c.Out) == 4 {
		mask := AttentionMask(c)
		if len(mask) != 1 || mask[0].DType != c.In[1].DType {
			return Errorf(c.Op, ErrCall, "the gradient of a mask that is not there, or not of q's type")
		}
		if err := checkSameShape(c, &c.Out[3], &mask[0]); err != nil {
			return err
		}
	}
	return checkAttention(c, c.In[1:4], &c.In[4], &c.In[5], AttentionMask(c))
}
