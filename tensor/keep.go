package tensor

import "github.com/cistern-ml/cistern/internal/training"

// Keep notes that somebody will release the handle t, and reports whether nobody had said so before. It is false for a handle that was
// noted already and for one that is lent: both belong to somebody else, so that who wants the memory must Retain. A nil tensor is nobody's.
// It is for packages of this module, which alone can write the key.
func Keep(_ training.Key, t *Tensor) bool {
	switch {
	case !t.made():
		return true
	case t.lender != nil || t.kept.Load():
		return false
	}
	return t.kept.CompareAndSwap(false, true)
}

// Kept reports whether t is lent or was noted by Keep. It is for packages of this module.
func Kept(_ training.Key, t *Tensor) bool { return t.made() && (t.lender != nil || t.kept.Load()) }
