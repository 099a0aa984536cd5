package amp

import (
	"errors"
	"fmt"
	"math"
)

// State is what a GradScaler remembers between iterations: what a program saves beside its model. The names in JSON are those
// of PyTorch's state_dict. The zero State is that of a disabled GradScaler, which has nothing to remember.
type State struct {
	Scale          float64 `json:"scale"`
	GrowthFactor   float64 `json:"growth_factor"`
	BackoffFactor  float64 `json:"backoff_factor"`
	GrowthInterval int     `json:"growth_interval"`
	GrowthTracker  int     `json:"_growth_tracker"` // steps without overflow since the scale was changed
}

// State waits for the device and returns what LoadState takes. Take it between iterations: before the first Scale, or after
// Update.
func (s *GradScaler) State() (State, error) {
	s = s.given()
	if !s.enabled {
		return State{}, nil
	}
	if s.err != nil {
		return State{}, s.err
	}
	scale, err := s.GetScale()
	if err != nil {
		return State{}, err
	}
	tracker := float64(s.initTracker)
	if s.tracker != nil {
		if tracker, err = s.tracker.Item(); err != nil {
			return State{}, err
		}
	}
	st := s.settings()
	st.Scale, st.GrowthTracker = scale, int(tracker)
	return st, nil
}

// settings is the state before anything is scaled.
func (s *GradScaler) settings() State {
	return State{
		Scale: s.initScale, GrowthFactor: s.growthFactor, BackoffFactor: s.backoffFactor, GrowthInterval: s.growthInterval,
		GrowthTracker: int(s.initTracker),
	}
}

// check refuses what no GradScaler has. Comparisons are written so that NaN fails them.
func (st State) check(method string) error {
	wrong := func(m Misuse, v any) error {
		return &ScalerError{Method: method, Misuse: m, Detail: fmt.Sprintf("(%v)", v)}
	}
	switch scale := float64(float32(st.Scale)); {
	case !(scale > 0 && scale <= math.MaxFloat32):
		return wrong(BadScale, st.Scale)
	case !(st.GrowthFactor > 1 && st.GrowthFactor <= math.MaxFloat64):
		return wrong(BadGrowth, st.GrowthFactor)
	case !(st.BackoffFactor > 0 && st.BackoffFactor < 1):
		return wrong(BadBackoff, st.BackoffFactor)
	case st.GrowthInterval < 1 || st.GrowthInterval > math.MaxInt32:
		return wrong(BadInterval, st.GrowthInterval)
	case st.GrowthTracker < 0 || st.GrowthTracker > math.MaxInt32:
		return wrong(BadTracker, st.GrowthTracker)
	}
	return nil
}

// CheckState refuses what LoadState would, and changes nothing.
func (s *GradScaler) CheckState(st State) error {
	s = s.given()
	switch {
	case !s.enabled:
		return nil
	case s.err != nil:
		return s.err
	case st == (State{}):
		return &ScalerError{Method: "LoadState", Misuse: EmptyState}
	}
	return st.check("LoadState")
}

// LoadState goes on from a state that State returned, with its settings. A disabled GradScaler ignores it; the state of one is
// EmptyState. Settings that NewGradScaler does not take, a scale that is not more than 0 and finite in float32, and a growth tracker
// that is negative are a *ScalerError. If it fails, the GradScaler is as it was. It may wait for the device.
func (s *GradScaler) LoadState(st State) error {
	s = s.given()
	if err := s.CheckState(st); err != nil || !s.enabled {
		return err
	}
	if err := s.fill(st); err != nil {
		return err
	}
	s.initScale, s.initTracker = st.Scale, int32(st.GrowthTracker)
	s.growthFactor, s.backoffFactor, s.growthInterval = st.GrowthFactor, st.BackoffFactor, st.GrowthInterval
	return nil
}

// fill sets what is on the device, if it is, to a state: all or nothing.
func (s *GradScaler) fill(st State) error {
	if s.scale == nil {
		return nil
	}
	old, err := s.scale.Item()
	if err != nil {
		return err
	}
	if err := s.scale.FillInPlace(st.Scale); err != nil {
		return err
	}
	if err := s.tracker.FillInPlace(float64(st.GrowthTracker)); err != nil {
		return errors.Join(err, s.scale.FillInPlace(old))
	}
	return nil
}
