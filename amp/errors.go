package amp

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// AutocastError is a lower precision that autocast does not have.
type AutocastError struct {
	DType tensor.DType
}

// Error is one line that says which types there are.
func (e *AutocastError) Error() string {
	return fmt.Sprintf("amp: autocast to %s; it must be float16, bfloat16 or amp.DeviceDefault", e.DType)
}

// BannedError is an operation that autocast refuses, because its gradients are unsafe in lower precision.
type BannedError struct {
	Op string
}

// Error is PyTorch's explanation.
func (e *BannedError) Error() string {
	return fmt.Sprintf("amp: %s is unsafe to autocast. Many models use a sigmoid layer right before the binary cross entropy "+
		"layer. In this case, combine the two layers using binary_cross_entropy_with_logits (Variable.BCEWithLogitsLoss), which "+
		"is safe to autocast", e.Op)
}

// PromoteError is an operation of class WidestInput with an input in the 16-bit type that is not the region's.
type PromoteError struct {
	Op    string
	DType tensor.DType // of the input
	Lower tensor.DType // the region's
}

// Error is PyTorch's message, with the types.
func (e *PromoteError) Error() string {
	return fmt.Sprintf("amp: %s: Unexpected floating ScalarType in at::autocast::prioritize: %s, where autocast is to %s",
		e.Op, e.DType, e.Lower)
}

// Misuse is a mistake in the use of a GradScaler. Each is an error for errors.Is: errors.Is(err, amp.SteppedTwice).
type Misuse uint8

// The mistakes.
const (
	UnscaledTwice   Misuse = iota + 1 // Unscale, and then Unscale again before Update
	UnscaledTooLate                   // Unscale after Step
	SteppedTwice                      // Step, and then Step again before Update
	NotScaled                         // Unscale, Step or Update before anything was scaled
	NothingChecked                    // Step with an optimizer none of whose parameters has a gradient
	NothingToUpdate                   // Update without a Step or Unscale since the last one
	Float16Gradient                   // parameters in float16 have gradients that may have lost their small values already
	EmptyState                        // LoadState of the state of a disabled GradScaler
	BadGrowth                         // GrowthFactor, or one in a State, of 1 or less, or infinite
	BadBackoff                        // BackoffFactor, or one in a State, of 1 or more, or of 0 or less
	BadNewScale                       // NewScaleTensor that is not one float32
	BadOptimizer                      // an optimizer that is nil, or that cannot be told from others
	BadScale                          // InitScale, or a scale in a State, that is not more than 0 and finite in float32
	BadInterval                       // GrowthInterval, or one in a State, that is not from 1 to 2^31-1
	BadTracker                        // a growth tracker in a State that is not from 0 to 2^31-1
	NoScaler                          // a method of a nil GradScaler
	SharedGradients                   // gradients that ranks share out are not there, not complete, or looked at by a scaler without AgreedBy
)

// misuseText is PyTorch's text for each that PyTorch has.
var misuseText = [...]string{
	UnscaledTwice:   "unscale_() has already been called on this optimizer since the last update().",
	UnscaledTooLate: "unscale_() is being called after step().",
	SteppedTwice:    "step() has already been called since the last update().",
	NotScaled: "Attempted %s but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) " +
		"earlier in the iteration.",
	NothingChecked:  "No inf checks were recorded for this optimizer.",
	NothingToUpdate: "No inf checks were recorded prior to update.",
	Float16Gradient: "Attempting to unscale FP16 gradients.",
	EmptyState:      "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.",
	BadGrowth:       "The growth factor must be > 1.0.",
	BadBackoff:      "The backoff factor must be < 1.0.",
	BadNewScale:     "new_scale should be a float or a 1-element float32 tensor.",
	BadScale:        "the scale must be more than 0 and finite in float32.",
	BadInterval:     "the growth interval must be from 1 to 2147483647.",
	BadTracker:      "the growth tracker must be from 0 to 2147483647.",
	SharedGradients: "the ranks share the gradients out:",
	NoScaler:        "the GradScaler is nil: make one with NewGradScaler.",
	BadOptimizer:    "the optimizer must be comparable and not nil: pass a pointer.",
}

// Error is PyTorch's text, where PyTorch has the mistake.
func (m Misuse) Error() string {
	if m > 0 && int(m) < len(misuseText) {
		return misuseText[m]
	}
	return fmt.Sprintf("Misuse(%d)", uint8(m))
}

// ScalerError is a GradScaler that was not used as it must be.
type ScalerError struct {
	Method string // of GradScaler, as in "Unscale", or "NewGradScaler"
	Misuse Misuse
	Detail string // the values, if there are any
}

// pythonNames are what PyTorch's messages call the methods.
var pythonNames = map[string]string{"Unscale": "unscale_", "Step": "step", "Update": "update"}

// Error is one line: the method and PyTorch's text, to the letter, and the values.
func (e *ScalerError) Error() string {
	text := e.Misuse.Error()
	if e.Misuse == NotScaled {
		text = fmt.Sprintf(text, pythonNames[e.Method])
	}
	if e.Detail != "" {
		text += " " + e.Detail
	}
	return "amp: GradScaler." + e.Method + ": " + text
}

// Unwrap returns the Misuse.
func (e *ScalerError) Unwrap() error { return e.Misuse }
