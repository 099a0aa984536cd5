package amp

import (
	"fmt"

	"github.com/cistern-ml/cistern/internal/oneline"
)

// String is the scaler in one line, as in "gradient scaler: scale 65536, growth 2 after 2000 steps, backoff 0.5". Once something was scaled,
// the scale is on a device, whose name takes the number's place: reading it would wait. GetScale does.
func (s *GradScaler) String() string {
	switch {
	case s == nil:
		return "gradient scaler (nil)"
	case !s.enabled:
		return "gradient scaler, disabled"
	case s.err != nil:
		return "gradient scaler, failed: " + oneline.Error(s.err)
	}
	scale := fmt.Sprint(s.initScale)
	if s.scale != nil {
		scale = fmt.Sprintf("on %s", s.scale.Device().ID())
	}
	return fmt.Sprintf("gradient scaler: scale %s, growth %v after %s, backoff %v", scale, s.growthFactor,
		oneline.Count(s.growthInterval, "step"), s.backoffFactor)
}
